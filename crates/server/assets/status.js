// How current the page is, and whether the nodes have a majority: always in sight.

import { h, mark, shape, write } from './dom.js';
import { lasting } from './words.js';

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
    const isBlind = isLive && this.#store.look?.trouble != null;
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
    if (state === 'live') {
      const age = lasting(performance.now() - this.#store.seen);
      return `The locks cannot be looked at: ${this.#store.look.trouble}. They are as of ${age} ago.`;
    }
    const age =
      this.#stream.heard == null ? 'Nothing was heard yet' : `What you see is ${lasting(this.#stream.age())} old`;
    if (state === 'stalled') return `The stream has stalled: ${why}. ${age}.`;
    if (state === 'refused') return `The service refuses the stream: ${why}. ${age}.`;
    const again =
      nextTry == null ? 'Trying now.' : `Trying again in ${lasting(Math.max(0, nextTry - performance.now()) + 999)}.`;
    return `The stream is cut: ${why}. ${age}. ${again}`;
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
