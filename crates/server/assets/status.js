// The status bar: how current the page is, and whether a majority of nodes votes.

import { h, mark, shape, write } from './dom.js';
import { briefly, counted, lasting } from './format.js';

/** The text for each state of a node. */
const STATES = { quarantined: 'in quarantine' };

export class Status {
  #live = document.querySelector('#live');
  #quorum = document.querySelector('#quorum');
  #banner = document.querySelector('#banner');
  #words = h('span');
  #votes = h('span');
  #lose = h('span', { class: 'lose' });
  #retry;
  #stream;
  #store;

  constructor(stream, store) {
    this.#stream = stream;
    this.#store = store;
    this.#retry = h('button', { type: 'button', onclick: () => stream.retry() }, 'Try now');
    this.#banner.append(this.#words, this.#retry);
    this.#live.append(shape('vote'), h('span'));
    this.#quorum.append(shape('vote'), h('span', {}, this.#votes, this.#lose));
  }

  paint() {
    const { state, nextTry } = this.#stream;
    const isLive = state === 'live';
    const isBlind = isLive && this.#store.isBlind;
    mark(document.body, 'data-stream', isBlind ? 'blind' : state);
    mark(this.#live.firstChild, 'data-kind', isLive ? 'vote' : state === 'connecting' ? 'wait' : 'away');
    write(
      this.#live.lastChild,
      isLive ? 'live' : state === 'connecting' ? 'connecting' : `${state} ${lasting(this.#stream.age())}`,
    );
    this.#banner.hidden = (isLive && !isBlind) || state === 'connecting';
    this.#retry.hidden = state !== 'cut' || nextTry == null;
    if (!this.#banner.hidden) write(this.#words, this.#told());
    this.#paintQuorum();
  }

  #told() {
    const { state, why, nextTry } = this.#stream;
    if (state === 'live') return `Cannot read the locks: ${this.#blindness()}.${this.#asOf()}${this.#foundation()}`;
    const age =
      this.#stream.heard == null ? 'No data yet' : `The data is ${lasting(this.#stream.age())} old`;
    if (state === 'stalled') return `The stream has stalled: ${why}. ${age}.`;
    if (state === 'refused') return `The service refuses the stream: ${why}. ${age}.`;
    const again =
      nextTry == null ? 'Reconnecting now.' : `Reconnecting in ${lasting(Math.max(0, nextTry - performance.now()) + 999)}.`;
    return `Disconnected: ${why}. ${age}. ${again}`;
  }

  /** Why the locks cannot be read, in one phrase for all nodes. The nodes view has the details. */
  #blindness() {
    const { nodes, total, majority, voting } = this.#store.nodes;
    // A majority votes, but answered late.
    if (voting >= majority) return briefly(this.#store.look.trouble);
    const silent = nodes.filter(({ state }) => state !== 'voting');
    const states = [...new Set(silent.map(({ state }) => state))].map((state) => {
      const many = silent.filter((node) => node.state === state).length;
      return `${many} ${many === 1 ? 'is' : 'are'} ${STATES[state] ?? state}`;
    });
    return [`${voting} of ${total} vote`, ...states].join(', ');
  }

  /** Advice if there is no majority without new nodes. */
  #foundation() {
    const { nodes, total, majority, voting } = this.#store.nodes;
    const left = nodes
      .filter(({ state, restarts }) => state === 'quarantined' && restarts === 0)
      .map(({ quarantine_ms, heard }) => Math.max(0, quarantine_ms - (performance.now() - heard)))
      .sort((a, b) => a - b);
    // The moment at which enough quarantines have ended for a majority.
    const wait = left[majority - voting - 1];
    if (wait == null) return '';
    const which = `${left.length} of ${counted(total, 'node')} ${left.length === 1 ? 'is' : 'are'} new, or lost their memory`;
    return ` ${which}, and can vote in ${lasting(wait)}. If no lock is in use, run: quorlock nodes init --yes`;
  }

  #asOf() {
    const { seen, locks } = this.#store;
    if (seen != null) return ` The locks below were read ${lasting(performance.now() - seen)} ago.`;
    return locks.size > 0 ? ' The locks below are from an earlier read.' : '';
  }

  #paintQuorum() {
    const { total, majority, voting, can_lose } = this.#store.nodes;
    this.#quorum.hidden = total === 0;
    const kind = voting < majority ? 'away' : voting < total ? 'wait' : 'vote';
    mark(this.#quorum.firstChild, 'data-kind', kind);
    write(this.#votes, `${voting} of ${total} vote${voting < majority ? ': no majority' : ''}`);
    write(this.#lose, total > 1 && voting >= majority ? `, can lose ${can_lose} more` : '');
  }
}
