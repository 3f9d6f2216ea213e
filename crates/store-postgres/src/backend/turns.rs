//! The turn as locks of the server, which hands each on in the order in which it was asked for.
//!
//! - The *turn* itself is held by whoever may write.
//! - Those who have much to do hold the *gate* as well, and ask for it first: so only one of them at a time waits for the
//!   turn, behind those who have little to do. Whoever lends the turn lets go of it and not of the gate.
//! - Those who have little to do hold the *hint*, together, while they wait: whoever keeps a turn can tell from it that they do.
//!
//! Only the turn decides anything; the others are courtesy. A turn that is kept over several transactions is a lock of the
//! session, and so is its gate. The session is then in a transaction at every moment in which it could fall silent, and the
//! server ends it if it does.

use runcue_store::overlay::Haste;

const TAKE_TURN: &str = "SELECT pg_advisory_xact_lock(hashtextextended('runcue.', 0))";
const TAKE_GATE: &str = "SELECT pg_advisory_xact_lock(hashtextextended('runcue.gate', 0))";
const GIVE_HINT: &str = "SELECT pg_advisory_xact_lock_shared(hashtextextended('runcue.hint', 0))";

/// Keeps the turn after its transaction, and the gate with it. Says how many wait for the gate, where that is known: the
/// server's list of all locks is not for every commit.
pub(super) const KEEP_TURN: &str = "SELECT NULL::bigint AS line, runcue.keep_turn()";
pub(super) const KEEP_BOTH: &str = "SELECT (\
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objsubid = 1 \
    AND (classid::bigint << 32) | objid::bigint = hashtextextended('runcue.gate', 0) \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())\
    ) AS line, runcue.keep_turn(), pg_advisory_lock(hashtextextended('runcue.gate', 0))";
/// Whether somebody with little to do waits.
pub(super) const HURRY: &str =
    "SELECT NOT pg_try_advisory_xact_lock(hashtextextended('runcue.hint', 0))";
const END_TURN: &str = "SELECT runcue.end_turn()";
const LEAVE_GATE: &str = "SELECT pg_advisory_unlock(hashtextextended('runcue.gate', 0))";

/// Takes the turn until the end of a transaction that is under way, as whoever has little to do.
pub fn take_within() -> String {
    format!("{GIVE_HINT}; {TAKE_TURN}")
}

/// What the writer's connection holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// The turn, and a transaction is open.
    pub held: bool,
    /// The turn outlasts its transaction.
    pub lasting: bool,
    /// It was taken by the gate.
    pub gated: bool,
    /// The gate outlasts the transaction. If the turn is not held it is lent, and a transaction is open.
    pub gate_lasting: bool,
}

/// What becomes of the turn with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Ends,
    Kept,
    Lent,
}

impl Turn {
    /// The turn is lent.
    pub fn is_lent(self) -> bool {
        self.gate_lasting && !self.held
    }

    /// What takes the turn, and what is held from then on. `begin` begins a transaction.
    pub fn take(self, begin: &str, haste: Haste) -> (String, Self) {
        if self.is_lent() {
            // Whatever has become of the transaction in between.
            let again = format!("ROLLBACK; {begin}; {TAKE_TURN}");
            return (again, Self { held: true, gated: true, ..self });
        }
        let first = if haste == Haste::Little { GIVE_HINT } else { TAKE_GATE };
        let taken = Self { held: true, gated: haste != Haste::Little, ..Self::default() };
        (format!("{begin}; {first}; {TAKE_TURN}"), taken)
    }

    /// What makes the locks outlast the transaction that is committed, if they do not yet.
    pub fn keep(self) -> Option<&'static str> {
        (!self.lasting).then_some(if self.gated && !self.gate_lasting {
            KEEP_BOTH
        } else {
            KEEP_TURN
        })
    }

    /// What commits, and what is held from then on.
    pub fn commit(self, after: After) -> (String, Self) {
        // What a log of the server shows of a commit, whose other statements are known to it by number.
        let mut end = "/* write_turn */ COMMIT".to_owned();
        let next = match after {
            After::Kept => Self { lasting: true, gate_lasting: self.gated, ..self },
            After::Lent => Self { gate_lasting: self.gate_lasting, ..Self::default() },
            After::Ends => Self::default(),
        };
        for part in self.let_go(next) {
            end = format!("{end}; {part}");
        }
        if next.held || next.is_lent() {
            end.push_str("; BEGIN");
        }
        (end, next)
    }

    /// What ends it without a commit, if there is anything to end.
    pub fn abandoned(self) -> Option<String> {
        let parts = self.let_go(Self::default());
        let open = self.held || self.is_lent();
        open.then(|| ["ROLLBACK"].into_iter().chain(parts).collect::<Vec<_>>().join("; "))
    }

    /// What lets go of the locks of the session that are not held any more.
    fn let_go(self, next: Self) -> impl Iterator<Item = &'static str> {
        let turn = (self.lasting && !next.lasting).then_some(END_TURN);
        let gate = (self.gate_lasting && !next.gate_lasting).then_some(LEAVE_GATE);
        turn.into_iter().chain(gate)
    }
}
