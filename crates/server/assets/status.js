// The status bar: how current the data are, and whether a majority of the nodes votes.

import { h, setAttribute, shape, setText } from './dom.js';
import { withoutDetails, formatQuantity, formatDuration } from './format.js';

/** The states of a node that the banner calls by another name. */
const STATE_LABELS = { quarantined: 'in quarantine' };

export class Status {
  #live = document.querySelector('#live');
  #quorum = document.querySelector('#quorum');
  #banner = document.querySelector('#banner');
  #message = h('span');
  #votes = h('span');
  #canLose = h('span', { class: 'lose' });
  #retry;
  #stream;
  #store;

  constructor(stream, store) {
    this.#stream = stream;
    this.#store = store;
    this.#retry = h('button', { type: 'button', onclick: () => stream.retry() }, 'Try now');
    this.#banner.append(this.#message, this.#retry);
    this.#live.append(shape('vote'), h('span'));
    this.#quorum.append(shape('vote'), h('span', {}, this.#votes, this.#canLose));
  }

  paint() {
    const { state, nextAttemptAt } = this.#stream;
    const isLive = state === 'live';
    const isUnreadable = isLive && this.#store.areLocksUnreadable;
    setAttribute(document.body, 'data-stream', isUnreadable ? 'unreadable' : state);
    setAttribute(this.#live.firstChild, 'data-kind', isLive ? 'vote' : state === 'connecting' ? 'wait' : 'away');
    setText(
      this.#live.lastChild,
      isLive ? 'live' : state === 'connecting' ? 'connecting' : `${state} ${formatDuration(this.#stream.lastEventAge())}`,
    );
    this.#banner.hidden = (isLive && !isUnreadable) || state === 'connecting';
    this.#retry.hidden = state !== 'cut' || nextAttemptAt == null;
    if (!this.#banner.hidden) setText(this.#message, this.#bannerText());
    this.#paintQuorum();
  }

  #bannerText() {
    const { state, why, nextAttemptAt } = this.#stream;
    if (state === 'live') return `Cannot read the locks: ${this.#reason()}.${this.#readAge()}${this.#initAdvice()}`;
    const age =
      this.#stream.lastEventAt == null ? 'No data yet' : `The data is ${formatDuration(this.#stream.lastEventAge())} old`;
    if (state === 'stalled') return `The stream has stalled: ${why}. ${age}.`;
    if (state === 'refused') return `The service refuses the stream: ${why}. ${age}.`;
    const reconnecting =
      nextAttemptAt == null ? 'Reconnecting now.' : `Reconnecting in ${formatDuration(Math.max(0, nextAttemptAt - performance.now()) + 999)}.`;
    return `Disconnected: ${why}. ${age}. ${reconnecting}`;
  }

  /** Returns why the locks cannot be read, in one phrase for all nodes. The view of nodes shows the details. */
  #reason() {
    const { nodes, total, majority, voting } = this.#store.nodes;
    // A majority can vote now, but the last read failed.
    if (voting >= majority) return withoutDetails(this.#store.look.trouble);
    const nonVoting = nodes.filter(({ state }) => state !== 'voting');
    const states = [...new Set(nonVoting.map(({ state }) => state))].map((state) => {
      const number = nonVoting.filter((node) => node.state === state).length;
      return `${number} ${number === 1 ? 'is' : 'are'} ${STATE_LABELS[state] ?? state}`;
    });
    return [`${voting} of ${total} vote`, ...states].join(', ');
  }

  /** Returns advice if the majority is missing because nodes are new and therefore in quarantine, or else an empty text. */
  #initAdvice() {
    const { nodes, total, majority, voting } = this.#store.nodes;
    const remaining = nodes
      .filter(({ state, restarts }) => state === 'quarantined' && restarts === 0)
      .map(({ quarantine_ms, receivedAt }) => Math.max(0, quarantine_ms - (performance.now() - receivedAt)))
      .sort((a, b) => a - b);
    // The time until enough quarantines have ended for a majority.
    const wait = remaining[majority - voting - 1];
    if (wait == null) return '';
    const isOne = remaining.length === 1;
    const which = `${remaining.length} of ${formatQuantity(total, 'node')} ${isOne ? 'is new, or lost its' : 'are new, or lost their'} memory`;
    return ` ${which}, and can vote in ${formatDuration(wait)}. If no lock is in use, run: quorlock nodes init --yes`;
  }

  #readAge() {
    const { locksReadAt, locks } = this.#store;
    if (locksReadAt != null) return ` The locks below were read ${formatDuration(performance.now() - locksReadAt)} ago.`;
    return locks.size > 0 ? ' The locks below are from an earlier read.' : '';
  }

  #paintQuorum() {
    const { total, majority, voting, can_lose } = this.#store.nodes;
    this.#quorum.hidden = total === 0;
    const kind = voting < majority ? 'away' : voting < total ? 'wait' : 'vote';
    setAttribute(this.#quorum.firstChild, 'data-kind', kind);
    setText(this.#votes, `${voting} of ${total} vote${voting < majority ? ': no majority' : ''}`);
    setText(this.#canLose, total > 1 && voting >= majority ? `, can lose ${can_lose} more` : '');
  }
}
