-- Daemons tell each other what they have changed, and sign it.

-- What they sign with. Anybody who may connect to the database may listen to a channel and speak on it; only the owner of
-- this table may read it, whatever others were granted on all tables of the schema. The first daemon makes it up.
CREATE TABLE runcue.secret (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret bytea   NOT NULL
);
ALTER TABLE runcue.secret ENABLE ROW LEVEL SECURITY;
