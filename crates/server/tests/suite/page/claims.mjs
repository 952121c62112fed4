// What is claimed of the page: `node claims.mjs CLAIM ADDRESS`. Steps that are others' to do are printed, and awaited.

import { breaking } from './claims/breaking.mjs';
import { care } from './claims/care.mjs';
import { locks } from './claims/locks.mjs';
import { news } from './claims/news.mjs';
import { claim } from './told.mjs';

await { ...locks, ...breaking, ...news, ...care }[claim]();
process.exit(0);
