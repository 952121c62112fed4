// Runs one claim about the page: `node claims.mjs CLAIM ADDRESS`. Prints the steps that the test must carry out, and waits for them.

import { breaking } from './claims/breaking.mjs';
import { care } from './claims/care.mjs';
import { locks } from './claims/locks.mjs';
import { news } from './claims/news.mjs';
import { claim } from './told.mjs';

await { ...locks, ...breaking, ...news, ...care }[claim]();
process.exit(0);
