// Where the dashboard begins.
import { render } from 'preact';
import { App } from './app';
import { startClock } from './clock';
import { restWhenHidden } from './live';
import { startRouter } from './router';
import { askWho } from './who';
import './styles/tokens.css';
import './styles/base.css';
import './styles/frame.css';
import './styles/parts.css';
import './styles/pages.css';

startRouter();
startClock();
restWhenHidden();
void askWho();
const place = document.getElementById('app');
if (place) render(<App />, place);
