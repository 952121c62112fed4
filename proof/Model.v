(* The model: nodes that vote, clients that ask them, and what may happen between them. Lease.v proves what holds in every
   reachable state.

   Messages may be lost, delayed without bound, repeated and reordered. Clients may decide early and give up at any moment.
   Nodes may lose their memory and return after a quarantine. Time is real time, in any unit. Clocks matter only for
   [len a], which is how long a node surely keeps a vote for attempt [a] in real time. Validity.v derives [len a] from the
   ttl, the drift and the client's own clock.

   The model is about one name and one generation: the N nodes never change. Membership change from one generation of
   nodes to the next is not modelled; `./x model --rosters` searches it. README.md lists everything that is not modelled.

   A relation between attempts says which attempts must not hold together. For an exclusive lock, any two different
   attempts are in this relation. Kinds.v has the relations of the other kinds of locks.

   The code of nodes is in crates/core/src/node/, and that of clients in acquire.rs and hold.rs in crates/core/src.
   README.md maps each definition to the code. *)

Require Import Arith Lia List Bool.
Require Import Majority.

(* Attempts have unique ids. *)
Definition attempt := nat.

Section Model.

Variable N : nat.                                    (* number of nodes *)
Variable len : attempt -> nat.                       (* how long a node surely keeps a vote *)
Variable longest : nat.                              (* max_ttl *)

Variable conflict : attempt -> attempt -> Prop.      (* attempts that must not hold together *)

(* The attempts that need a new fence. A re-entry (of an owner that holds the lock) gets the fence of the owner's first entry,
   and a plain lock has no fence. Exclusion does not depend on fences. *)
Variable fenced : attempt -> Prop.

(* The owner of an attempt, for the kinds of locks that have owners: reentrant locks, and readers. *)
Variable owner : attempt -> option nat.

(* ---------------------------------------------------------------------------------------------- definitions *)

Record state := mk {
  now      : nat;
  vote     : node -> attempt -> Prop;                (* a node's memory: its present votes *)
  counter  : node -> nat;                            (* a node's memory: the highest fence that it granted *)
  outside  : node -> bool;                           (* in quarantine *)
  ripe_at  : node -> nat;                            (* when the quarantine may end *)
  promised : node -> attempt -> nat;                 (* for the proof: until when a node surely keeps a vote *)
  first    : node -> attempt -> nat;                 (* for the proof: the fence of the latest new vote *)
  asked    : node -> attempt -> nat -> nat -> Prop;  (* requests ever sent, with the moment and the proposal *)
  renewing : node -> attempt -> nat -> Prop;         (* renewals ever sent, with the moment *)
  granted  : node -> attempt -> nat -> nat -> Prop;  (* grants: the moment of the REQUEST, and the fence *)
  done     : attempt -> Prop;                        (* given up, or released: marked before any release is sent *)
  fence    : attempt -> option nat;                  (* the fence that the attempt decided *)
  voters   : attempt -> list node;                   (* for the proof: the nodes of the decision *)
  alive    : attempt -> Prop;                        (* held without a gap since the decision: not lost *)
  refused  : node -> nat -> nat;                     (* a node's memory: until when it refuses a retired owner *)
  retired  : attempt -> Prop;                        (* for the proof: a retirement removed a vote of the attempt *)
  late     : attempt -> Prop                         (* for the proof: decided after it was retired *)
}.

Definition update {A} (f : node -> A) (i : node) (x : A) : node -> A :=
  fun j => if Nat.eqb j i then x else f j.
Definition update2 {A} (f : node -> attempt -> A) (i : node) (a : attempt) (x : A) : node -> attempt -> A :=
  fun j b => if Nat.eqb j i then (if Nat.eqb b a then x else f j b) else f j b.

(* A grant counts from the moment at which its request was sent. *)
Definition live (s : state) (i : node) (a : attempt) : Prop :=
  exists sent w, granted s i a sent w /\ now s < sent + len a.
Definition live_with (s : state) (i : node) (a : attempt) (w : nat) : Prop :=
  exists sent, granted s i a sent w /\ now s < sent + len a.

(* A majority of the nodes has granted, and these grants still count. Grants of renewals and repairs count, too.
   Validity.v shows how a client computes until when this is true. *)
Definition backed (s : state) (a : attempt) : Prop :=
  exists Q, majority N Q /\ forall i, In i Q -> live s i a.
Definition holds (s : state) (a : attempt) : Prop := ~ done s a /\ fence s a <> None /\ backed s a.

(* An attempt may decide with fence t if a majority has granted it this fence in time. *)
Definition decides (s : state) (a : attempt) (t : nat) (Q : list node) : Prop :=
  ~ done s a /\ fence s a = None /\ majority N Q /\ forall i, In i Q -> live_with s i a t.

(* A node that executed a retirement of an owner refuses the owner for a while. *)
Definition refuses (s : state) (i : node) (o : nat) : Prop := now s < refused s i o.
Definition admits (s : state) (i : node) (a : attempt) : Prop := forall o, owner a = Some o -> ~ refuses s i o.

(* The nodes need not keep the votes of an attempt that is done, or whose owner was retired. *)
Definition over (s : state) (a : attempt) : Prop := done s a \/ retired s a.

Definition starts (s : state) : Prop :=
  (forall i a, ~ vote s i a) /\ (forall i, outside s i = false) /\ (forall i, ripe_at s i <= now s) /\
  (forall i a, promised s i a <= now s) /\ (forall i a x p, ~ asked s i a x p) /\ (forall i a x, ~ renewing s i a x) /\
  (forall i a x w, ~ granted s i a x w) /\ (forall a, fence s a = None) /\ (forall a, ~ alive s a) /\
  (forall a, ~ retired s a).

(* Node i retires owner o: it removes the votes of all attempts of this owner and refuses the owner for a while. *)
Definition after_retirement (s : state) (i : node) (o d : nat) : state :=
  mk (now s) (fun j b => vote s j b /\ ~ (j = i /\ owner b = Some o)) (counter s) (outside s) (ripe_at s) (promised s)
    (first s) (asked s) (renewing s) (granted s) (done s) (fence s) (voters s) (alive s)
    (update2 (refused s) i o (Nat.max (refused s i o) (now s + d)))
    (fun b => retired s b \/ (vote s i b /\ owner b = Some o)) (late s).

Inductive step (s : state) : state -> Prop :=
(* Time passes. An attempt that is no longer backed is lost for good. *)
| Tick : forall d s',
    s' = mk (now s + d) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s) (renewing s)
            (granted s) (done s) (fence s) (voters s)
            (fun a => alive s a /\ exists Q, majority N Q /\ forall i, In i Q ->
               exists sent w, granted s i a sent w /\ now s + d < sent + len a)
            (refused s) (retired s) (late s) ->
    step s s'
(* A first request, a repeated request and a seal are the same message. Requests are never removed, because they may arrive
   late and twice. *)
| Ask : forall i a p, ~ done s a ->
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s)
      (fun j b x q => asked s j b x q \/ (j = i /\ b = a /\ x = now s /\ q = p)) (renewing s)
      (granted s) (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* Only an attempt that holds, and has never lost its lease, renews. *)
| Renew : forall i a, ~ done s a -> alive s a ->
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s)
      (fun j b x => renewing s j b x \/ (j = i /\ b = a /\ x = now s))
      (granted s) (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* A new vote: no conflicting attempt has one, and a new fence exceeds every fence that the node has granted. An attempt that
   needs no new fence gets any number. *)
| GrantFresh : forall i a x p w, asked s i a x p -> outside s i = false -> admits s i a -> ~ vote s i a ->
    (forall b, vote s i b -> ~ conflict a b) -> (fenced a -> p <= w /\ counter s i < w) ->
    step s (mk (now s) (update2 (vote s) i a True) (update (counter s) i (Nat.max (counter s i) w)) (outside s) (ripe_at s)
      (update2 (promised s) i a (Nat.max (promised s i a) (now s + len a))) (update2 (first s) i a w) (asked s)
      (renewing s) (fun j b y v => granted s j b y v \/ (j = i /\ b = a /\ y = x /\ v = w))
      (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* The node already has this attempt's vote and grants it again. *)
| GrantAgain : forall i a x p w, asked s i a x p -> outside s i = false -> admits s i a -> vote s i a ->
    p <= w -> counter s i <= w ->
    step s (mk (now s) (vote s) (update (counter s) i w) (outside s) (ripe_at s)
      (update2 (promised s) i a (Nat.max (promised s i a) (now s + len a))) (first s) (asked s)
      (renewing s) (fun j b y v => granted s j b y v \/ (j = i /\ b = a /\ y = x /\ v = w))
      (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* A renewal: the node has this attempt's vote, or has forgotten it and no conflicting attempt has one. The node may answer
   with any number, because the lease keeps its fence. *)
| Repair : forall i a x w, renewing s i a x -> outside s i = false -> admits s i a ->
    (forall b, vote s i b -> ~ conflict a b) ->
    step s (mk (now s) (update2 (vote s) i a True) (update (counter s) i (Nat.max (counter s i) w)) (outside s) (ripe_at s)
      (update2 (promised s) i a (Nat.max (promised s i a) (now s + len a))) (first s) (asked s)
      (renewing s) (fun j b y v => granted s j b y v \/ (j = i /\ b = a /\ y = x /\ v = w))
      (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* A vote expires, never early. *)
| Expire : forall i a, vote s i a -> promised s i a <= now s ->
    step s (mk (now s) (update2 (vote s) i a False) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s)
      (renewing s) (granted s) (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* A release arrives, perhaps late or twice. Only attempts that are done send releases. *)
| Release : forall i a, done s a ->
    step s (mk (now s) (update2 (vote s) i a False) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s)
      (renewing s) (granted s) (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
(* A retirement of an owner arrives, perhaps late or twice, or while the node is in quarantine. *)
| Retire : forall i o d, step s (after_retirement s i o d)
(* The node loses its memory; its counter takes any value. The quarantine lasts longer than every vote. *)
| Crash : forall i c q, now s + longest <= q ->
    step s (mk (now s) (update (vote s) i (fun _ => False)) (update (counter s) i c) (update (outside s) i true)
      (update (ripe_at s) i (Nat.max q (ripe_at s i))) (promised s) (first s) (asked s) (renewing s) (granted s)
      (done s) (fence s) (voters s) (alive s) (update (refused s) i (fun _ => 0)) (retired s) (late s))
(* The node leaves the quarantine with a floor at or above every fence that it had voted for. *)
| Rejoin : forall i c, outside s i = true -> ripe_at s i <= now s ->
    (forall b t, fence s b = Some t -> In i (voters s b) -> t <= c) ->
    step s (mk (now s) (vote s) (update (counter s) i c) (update (outside s) i false) (ripe_at s) (promised s) (first s)
      (asked s) (renewing s) (granted s) (done s) (fence s) (voters s) (alive s) (refused s) (retired s) (late s))
| Decide : forall a t Q, decides s a t Q ->
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s) (renewing s)
      (granted s) (done s) (fun b => if Nat.eqb b a then Some t else fence s b)
      (fun b => if Nat.eqb b a then Q else voters s b) (fun b => alive s b \/ b = a)
      (refused s) (retired s) (fun b => late s b \/ (b = a /\ retired s a)))
(* The attempt is released, given up or lost. It sends no more requests. *)
| Finish : forall a,
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s) (renewing s)
      (granted s) (fun b => done s b \/ b = a) (fence s) (voters s) (fun b => alive s b /\ b <> a)
      (refused s) (retired s) (late s)).

Inductive reachable : state -> Prop :=
| Start : forall s, starts s -> reachable s
| Next  : forall s s', reachable s -> step s s' -> reachable s'.

End Model.
