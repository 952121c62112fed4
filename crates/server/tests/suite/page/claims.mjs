// Runs one claim about the page: `node claims.mjs CLAIM ADDRESS`. Prints each step that the Rust test must carry out, and waits until the test
// has carried out the step.

import { breaking } from './claims/breaking.mjs';
import { layoutAndSecrets } from './claims/layout_and_secrets.mjs';
import { locks } from './claims/locks.mjs';
import { nodesAndStreams } from './claims/nodes_and_streams.mjs';
import { claim } from './rust_test.mjs';

await { ...locks, ...breaking, ...nodesAndStreams, ...layoutAndSecrets }[claim]();
process.exit(0);
