(* Leases by majority vote: mutual exclusion, increasing fences, and no decision while a conflicting attempt holds.

   Messages may be lost, delayed without bound, repeated and reordered. Clients may decide early and give up at any moment.
   Nodes may lose their memory and return after a quarantine. Time is real time, in any unit. Clocks matter only for
   [len a], which is how long a node surely keeps a vote for attempt [a] in real time. Validity.v derives [len a] from the
   ttl, the drift and the client's own clock.

   A relation between attempts says which attempts must not hold together. For an exclusive lock, these are any two
   different attempts. Kinds.v has the relations of all kinds of locks.

   The code of nodes is in crates/core/src/node/, and that of clients in acquire.rs and hold.rs in crates/core/src.
   README.md maps each definition to the code. *)

Require Import Arith Lia List Bool.
Require Import Majority.

(* Attempts have unique ids. *)
Definition attempt := nat.

Section Protocol.

Variable N : nat.                                    (* number of nodes *)
Variable len : attempt -> nat.                       (* how long a node surely keeps a vote *)
Variable longest : nat.                              (* max_ttl *)
Hypothesis len_bounded : forall a, len a <= longest.

Variable conflict : attempt -> attempt -> Prop.      (* attempts that must not hold together *)
Hypothesis conflict_symmetric : forall a b, conflict a b -> conflict b a.
Hypothesis conflict_irreflexive : forall a, ~ conflict a a.

(* The attempts that need a new fence. A re-entry gets the fence of its owner's first entry, and a plain lock has no fence.
   Exclusion does not depend on fences. *)
Variable fenced : attempt -> Prop.

(* ---------------------------------------------------------------------------------------------- definitions *)

Record state := mk {
  now      : nat;
  vote     : node -> attempt -> Prop;                (* a node's memory: its present votes *)
  counter  : node -> nat;                            (* a node's memory: the highest fence that it granted *)
  outside  : node -> bool;                           (* in quarantine *)
  ripe_at  : node -> nat;                            (* when the quarantine may end *)
  promised : node -> attempt -> nat;                 (* for the proof: until when a node surely keeps a vote *)
  first    : node -> attempt -> nat;                 (* for the proof: the fence of the latest fresh vote *)
  asked    : node -> attempt -> nat -> nat -> Prop;  (* requests ever sent, with the moment and the proposal *)
  renewing : node -> attempt -> nat -> Prop;         (* renewals ever sent, with the moment *)
  granted  : node -> attempt -> nat -> nat -> Prop;  (* grants: the moment of the REQUEST, and the fence *)
  done     : attempt -> Prop;                        (* given up, or released: marked before any release is sent *)
  fence    : attempt -> option nat;                  (* the fence that the attempt decided *)
  voters   : attempt -> list node;                   (* for the proof: the nodes of the decision *)
  alive    : attempt -> Prop                         (* held without a gap since the decision: not lost *)
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

(* A majority of the nodes has granted, and these grants still count. Renewals and repairs are grants, too. Validity.v shows
   how a client computes this. *)
Definition backed (s : state) (a : attempt) : Prop :=
  exists Q, majority N Q /\ forall i, In i Q -> live s i a.
Definition holds (s : state) (a : attempt) : Prop := ~ done s a /\ fence s a <> None /\ backed s a.

(* An attempt may decide with fence t if a majority has granted it this fence in time. *)
Definition decides (s : state) (a : attempt) (t : nat) (Q : list node) : Prop :=
  ~ done s a /\ fence s a = None /\ majority N Q /\ forall i, In i Q -> live_with s i a t.

Definition starts (s : state) : Prop :=
  (forall i a, ~ vote s i a) /\ (forall i, outside s i = false) /\ (forall i, ripe_at s i <= now s) /\
  (forall i a, promised s i a <= now s) /\ (forall i a x p, ~ asked s i a x p) /\ (forall i a x, ~ renewing s i a x) /\
  (forall i a x w, ~ granted s i a x w) /\ (forall a, fence s a = None) /\ (forall a, ~ alive s a).

Inductive step (s : state) : state -> Prop :=
(* Time passes. An attempt that is no longer backed is lost for good. *)
| Tick : forall d s',
    s' = mk (now s + d) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s) (renewing s)
            (granted s) (done s) (fence s) (voters s)
            (fun a => alive s a /\ exists Q, majority N Q /\ forall i, In i Q ->
               exists sent w, granted s i a sent w /\ now s + d < sent + len a) ->
    step s s'
(* A first request, a repeated request and a seal are the same message. Requests are never removed, because they may arrive
   late and twice. *)
| Ask : forall i a p, ~ done s a ->
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s)
      (fun j b x q => asked s j b x q \/ (j = i /\ b = a /\ x = now s /\ q = p)) (renewing s)
      (granted s) (done s) (fence s) (voters s) (alive s))
(* Only an attempt that holds, and has never lost its lease, renews. *)
| Renew : forall i a, ~ done s a -> alive s a ->
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s)
      (fun j b x => renewing s j b x \/ (j = i /\ b = a /\ x = now s))
      (granted s) (done s) (fence s) (voters s) (alive s))
(* A new vote: no conflicting attempt has one, and a new fence exceeds every fence that the node has granted. *)
| GrantFresh : forall i a x p w, asked s i a x p -> outside s i = false -> ~ vote s i a ->
    (forall b, vote s i b -> ~ conflict a b) -> p <= w -> counter s i <= w -> (fenced a -> counter s i < w) ->
    step s (mk (now s) (update2 (vote s) i a True) (update (counter s) i w) (outside s) (ripe_at s)
      (update2 (promised s) i a (Nat.max (promised s i a) (now s + len a))) (update2 (first s) i a w) (asked s)
      (renewing s) (fun j b y v => granted s j b y v \/ (j = i /\ b = a /\ y = x /\ v = w))
      (done s) (fence s) (voters s) (alive s))
(* The node already has this attempt's vote and grants it again. *)
| GrantAgain : forall i a x p w, asked s i a x p -> outside s i = false -> vote s i a -> p <= w -> counter s i <= w ->
    step s (mk (now s) (vote s) (update (counter s) i w) (outside s) (ripe_at s)
      (update2 (promised s) i a (Nat.max (promised s i a) (now s + len a))) (first s) (asked s)
      (renewing s) (fun j b y v => granted s j b y v \/ (j = i /\ b = a /\ y = x /\ v = w))
      (done s) (fence s) (voters s) (alive s))
(* A renewal: the node has this attempt's vote, or has forgotten it and no conflicting attempt has one. The fence need not
   grow. *)
| Repair : forall i a x w, renewing s i a x -> outside s i = false ->
    (forall b, vote s i b -> ~ conflict a b) -> counter s i <= w ->
    step s (mk (now s) (update2 (vote s) i a True) (update (counter s) i w) (outside s) (ripe_at s)
      (update2 (promised s) i a (Nat.max (promised s i a) (now s + len a))) (first s) (asked s)
      (renewing s) (fun j b y v => granted s j b y v \/ (j = i /\ b = a /\ y = x /\ v = w))
      (done s) (fence s) (voters s) (alive s))
(* A vote expires, never early. *)
| Expire : forall i a, vote s i a -> promised s i a <= now s ->
    step s (mk (now s) (update2 (vote s) i a False) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s)
      (renewing s) (granted s) (done s) (fence s) (voters s) (alive s))
(* A release arrives, perhaps late or twice. Only attempts that are done send releases. *)
| Release : forall i a, done s a ->
    step s (mk (now s) (update2 (vote s) i a False) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s)
      (renewing s) (granted s) (done s) (fence s) (voters s) (alive s))
(* The node loses its memory, and its counter may have any value. The quarantine lasts longer than every vote. *)
| Crash : forall i c q, now s + longest <= q ->
    step s (mk (now s) (update (vote s) i (fun _ => False)) (update (counter s) i c) (update (outside s) i true)
      (update (ripe_at s) i (Nat.max q (ripe_at s i))) (promised s) (first s) (asked s) (renewing s) (granted s)
      (done s) (fence s) (voters s) (alive s))
(* The node leaves the quarantine with a floor at or above every fence that it had voted for. *)
| Rejoin : forall i c, outside s i = true -> ripe_at s i <= now s ->
    (forall b t, fence s b = Some t -> In i (voters s b) -> t <= c) ->
    step s (mk (now s) (vote s) (update (counter s) i c) (update (outside s) i false) (ripe_at s) (promised s) (first s)
      (asked s) (renewing s) (granted s) (done s) (fence s) (voters s) (alive s))
| Decide : forall a t Q, decides s a t Q ->
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s) (renewing s)
      (granted s) (done s) (fun b => if Nat.eqb b a then Some t else fence s b)
      (fun b => if Nat.eqb b a then Q else voters s b) (fun b => alive s b \/ b = a))
(* The attempt is released, given up or lost. It sends no more requests. *)
| Finish : forall a,
    step s (mk (now s) (vote s) (counter s) (outside s) (ripe_at s) (promised s) (first s) (asked s) (renewing s)
      (granted s) (fun b => done s b \/ b = a) (fence s) (voters s) (fun b => alive s b /\ b <> a)).

Inductive reachable : state -> Prop :=
| Start : forall s, starts s -> reachable s
| Next  : forall s s', reachable s -> step s s' -> reachable s'.

(* ------------------------------------------------------------------------------------------------ invariant *)

Record Invariant (s : state) : Prop := {
  (* no request comes from the future *)
  V_asked    : forall i a x p, asked s i a x p -> x <= now s;
  V_renewing : forall i a x, renewing s i a x -> x <= now s;
  (* only decided attempts renew *)
  V_renewed  : forall i a x, renewing s i a x -> fence s a <> None;
  V_alive    : forall a, alive s a -> fence s a <> None;
  (* a grant, counted from its request, ends before the vote does *)
  V_granted  : forall i a x w, granted s i a x w -> x + len a <= promised s i a;
  V_promised : forall i a, promised s i a <= now s + longest;
  (* a promise is kept, or the attempt is over, or the node is in quarantine until the promise has ended *)
  V_vote     : forall i a, now s < promised s i a -> done s a \/ vote s i a \/ promised s i a <= ripe_at s i;
  V_inside   : forall i, now s < ripe_at s i -> outside s i = true;
  V_outside  : forall i a, outside s i = true -> ~ vote s i a;
  (* two votes of one node do not conflict, and two promises of one node do not conflict *)
  V_together : forall i a b, vote s i a -> vote s i b -> ~ conflict a b;
  V_excluded : forall i a b, now s < promised s i a -> now s < promised s i b -> ~ done s a -> ~ done s b ->
                 ~ conflict a b;
  (* a node's counter is at or above every fence that was decided with its vote *)
  V_counter  : forall i b t, fence s b = Some t -> In i (voters s b) -> outside s i = true \/ t <= counter s i;
  V_first    : forall i a, fence s a = None -> vote s i a -> first s i a <= counter s i;
  V_value    : forall i a x w, granted s i a x w -> now s < x + len a -> ~ done s a -> fence s a = None ->
                 first s i a <= w /\ (outside s i = true \/ w <= counter s i);
  (* a vote for an undecided attempt is younger than every decision that it conflicts with *)
  V_younger  : forall i a b t, fence s b = Some t -> In i (voters s b) -> conflict a b -> fenced a -> ~ done s a ->
                 fence s a = None -> (vote s i a \/ now s < promised s i a) -> t < first s i a;
  V_majority : forall b t, fence s b = Some t -> majority N (voters s b)
}.

Ltac open := unfold update, update2 in *; simpl in *.
Ltac same j i := destruct (Nat.eqb_spec j i); subst; simpl in *.

(* If a grant counts now, the node's promise ends later than now. *)
Lemma live_is_promised : forall s, Invariant s -> forall i a, live s i a -> now s < promised s i a.
Proof. intros s I i a (x & w & G & L). pose proof (V_granted s I i a x w G). lia. Qed.

(* A grant that counts with a given fence counts. *)
Lemma live_with_is_live : forall s i a w, live_with s i a w -> live s i a.
Proof. intros s i a w (x & G & L). exists x, w. auto. Qed.

(* A node that may vote keeps its promises. *)
Lemma promised_is_voted :
  forall s, Invariant s -> forall i a, now s < promised s i a -> ~ done s a -> outside s i = false -> vote s i a.
Proof.
  intros s I i a P D O. destruct (V_vote s I i a P) as [X|[X|X]]; [contradiction|assumption|].
  assert (outside s i = true) by (apply (V_inside s I); lia). congruence.
Qed.

(* No node has both a promise to a live attempt and a vote for a conflicting attempt. *)
Lemma promise_excludes_votes :
  forall s, Invariant s -> forall i a b, now s < promised s i b -> ~ done s b -> vote s i a -> ~ conflict a b.
Proof.
  intros s I i a b P D V C.
  destruct (outside s i) eqn:O; [exact (V_outside s I i a O V)|].
  exact (V_together s I i a b V (promised_is_voted s I i b P D O) C).
Qed.

(* The invariant holds at the beginning. *)
Lemma invariant_starts : forall s, starts s -> Invariant s.
Proof.
  intros s (V & O & R & P & A & W & G & F & L).
  constructor; intros;
    try (exfalso; first [ eapply A; eassumption | eapply W; eassumption | eapply G; eassumption
                        | eapply V; eassumption | eapply L; eassumption ]);
    try (rewrite F in *; discriminate);
    try (match goal with |- context [promised s ?i ?a] => pose proof (P i a) end; lia);
    try (match goal with H : now s < promised s ?i ?a |- _ => pose proof (P i a) end; lia).
  - pose proof (R i). lia.
  - rewrite O in H. discriminate.
Qed.

(* What the three kinds of grants have in common: requests, decisions and quarantines do not change, a promise only gets
   longer, and the counter does not decrease. *)
Ltac grants s I i a :=
  first
    [ eapply (V_asked s I); eassumption
    | eapply (V_renewing s I); eassumption
    | eapply (V_renewed s I); eassumption
    | eapply (V_alive s I); eassumption
    | eapply (V_majority s I); eassumption
    | apply (V_inside s I); assumption
    | match goal with
      | H : granted s ?j ?b _ _ \/ _ |- _ =>
          destruct H as [X|(A1 & A2 & A3 & A4)];
          [ pose proof (V_granted s I _ _ _ _ X); same j i; [same b a; lia|lia] | subst; rewrite !Nat.eqb_refl; lia ]
      | |- context [promised s ?j ?b] =>
          same j i; [same b a; [pose proof (V_promised s I i a); lia|apply (V_promised s I)]|apply (V_promised s I)]
      | H : context [promised s ?j ?b] |- context [vote s ?j ?b] =>
          same j i; [same b a; [solve [auto]|apply (V_vote s I); assumption]|apply (V_vote s I); assumption]
      | F : fence s ?b = Some ?t, V : In ?j (voters s ?b) |- _ =>
          same j i; [destruct (V_counter s I i b t F V); [auto|right; lia]|eapply (V_counter s I); eassumption]
      end ].

(* Every step preserves the invariant. *)
Lemma invariant_step : forall s s', Invariant s -> step s s' -> Invariant s'.
Proof.
  intros s s' I H. destruct H.
  - (* Tick *) subst s'. constructor; simpl; intros.
    + pose proof (V_asked s I _ _ _ _ H). lia.
    + pose proof (V_renewing s I _ _ _ H). lia.
    + eapply V_renewed; eauto.
    + destruct H. eapply V_alive; eauto.
    + eapply V_granted; eauto.
    + pose proof (V_promised s I i a). lia.
    + apply (V_vote s I). lia.
    + apply (V_inside s I). lia.
    + eapply V_outside; eauto.
    + eapply (V_together s I); eauto.
    + eapply (V_excluded s I i); eauto; lia.
    + eapply V_counter; eauto.
    + eapply V_first; eauto.
    + eapply V_value; eauto. lia.
    + eapply (V_younger s I); eauto. destruct H5; [left; auto|right; lia].
    + eapply V_majority; eauto.
  - (* Ask *) constructor; simpl; intros; try (destruct I; eauto; fail).
    destruct H0 as [X|(A1 & A2 & A3 & A4)]; subst; [eapply V_asked; eauto|lia].
  - (* Renew *) constructor; simpl; intros; try (destruct I; eauto; fail).
    + destruct H1 as [X|(A1 & A2 & A3)]; subst; [eapply V_renewing; eauto|lia].
    + destruct H1 as [X|(A1 & A2 & A3)]; subst; [eapply V_renewed; eauto|]. eapply V_alive; eauto.
  - (* GrantFresh *) rename H into Hr, H0 into Ho, H1 into Hn, H2 into Hv, H3 into Hp, H4 into Hw, H5 into Hs.
    pose proof (V_asked s I _ _ _ _ Hr) as Hx. pose proof (len_bounded a) as HL.
    assert (own : forall b, now s < promised s i b -> ~ done s b -> b <> a /\ ~ conflict a b).
    { intros b P D. pose proof (promised_is_voted s I i b P D Ho). split; [congruence|auto]. }
    constructor; open; intros; try (grants s I i a; fail).
    + same i0 i; [congruence|]. apply (V_outside s I); auto.
    + same i0 i; [|eapply (V_together s I); eauto].
      same a0 a; same b a.
      * apply conflict_irreflexive.
      * auto.
      * intro C. apply (Hv a0); auto.
      * eapply (V_together s I); eauto.
    + same i0 i; [|eapply (V_excluded s I i0); eauto].
      same a0 a; same b a.
      * apply conflict_irreflexive.
      * apply own; auto.
      * intro C. apply conflict_symmetric in C. destruct (own a0 H H1) as [_ X]. exact (X C).
      * eapply (V_excluded s I i); eauto.
    + same i0 i; [same a0 a; [lia|pose proof (V_first s I i a0 H H0); lia]|eapply (V_first s I); eauto].
    + destruct H as [X|(A1 & A2 & A3 & A4)].
      * same i0 i.
        -- same a0 a.
           ++ exfalso. pose proof (V_granted s I _ _ _ _ X). destruct (own a); auto; lia.
           ++ destruct (V_value s I _ _ _ _ X H0 H1 H2) as [F C]. split; auto. destruct C; [auto|right; lia].
        -- eapply (V_value s I); eauto.
      * subst. rewrite !Nat.eqb_refl. split; [lia|right; lia].
    + same i0 i; [|eapply (V_younger s I); eauto].
      same a0 a; [|eapply (V_younger s I); eauto].
      destruct (V_counter s I i b t H H0); [congruence|]. pose proof (Hs H2). lia.
  - (* GrantAgain *) rename H into Hr, H0 into Ho, H1 into Hv, H2 into Hp, H3 into Hw.
    pose proof (V_asked s I _ _ _ _ Hr) as Hx. pose proof (len_bounded a) as HL.
    constructor; open; intros; try (grants s I i a; fail).
    + apply (V_outside s I); auto.
    + eapply (V_together s I); eauto.
    + same i0 i; [|eapply (V_excluded s I i0); eauto].
      same a0 a; same b a.
      * apply conflict_irreflexive.
      * eapply (promise_excludes_votes s I); eauto.
      * intro C. apply conflict_symmetric in C. eapply (promise_excludes_votes s I i a a0); eauto.
      * eapply (V_excluded s I i); eauto.
    + same i0 i; [pose proof (V_first s I i a0 H H0); lia|eapply (V_first s I); eauto].
    + destruct H as [X|(A1 & A2 & A3 & A4)].
      * destruct (V_value s I _ _ _ _ X H0 H1 H2) as [F C]. split; auto. same i0 i; auto. destruct C; [auto|right; lia].
      * subst. rewrite Nat.eqb_refl. pose proof (V_first s I i a H2 Hv). split; [lia|right; lia].
    + same i0 i; [|eapply (V_younger s I); eauto]. same a0 a; eapply (V_younger s I); eauto.
  - (* Repair *) rename H into Hr, H0 into Ho, H1 into Hv, H2 into Hw.
    pose proof (V_renewing s I _ _ _ Hr) as Hx. pose proof (V_renewed s I _ _ _ Hr) as Hf.
    pose proof (len_bounded a) as HL.
    constructor; open; intros; try (grants s I i a; fail).
    + same i0 i; [congruence|]. apply (V_outside s I); auto.
    + same i0 i; [|eapply (V_together s I); eauto].
      same a0 a; same b a.
      * apply conflict_irreflexive.
      * auto.
      * intro C. apply (Hv a0); auto.
      * eapply (V_together s I); eauto.
    + same i0 i; [|eapply (V_excluded s I i0); eauto].
      same a0 a; same b a.
      * apply conflict_irreflexive.
      * apply Hv. eapply (promised_is_voted s I); eauto.
      * intro C. apply conflict_symmetric in C. revert C. apply Hv. eapply (promised_is_voted s I); eauto.
      * eapply (V_excluded s I i); eauto.
    + same i0 i; [same a0 a; [contradiction|pose proof (V_first s I i a0 H H0); lia]|eapply (V_first s I); eauto].
    + destruct H as [X|(A1 & A2 & A3 & A4)]; [|subst; contradiction].
      destruct (V_value s I _ _ _ _ X H0 H1 H2) as [F C]. split; auto. same i0 i; auto. destruct C; [auto|right; lia].
    + same i0 i; [|eapply (V_younger s I); eauto]. same a0 a; [contradiction|eapply (V_younger s I); eauto].
  - (* Expire *) constructor; open; intros; try (destruct I; eauto; fail).
    + destruct (V_vote s I i0 a0 H1) as [X|[X|X]]; auto. same i0 i; auto. same a0 a; [lia|auto].
    + same i0 i; [same a0 a; [auto|eapply (V_outside s I); eauto]|eapply (V_outside s I); eauto].
    + same i0 i; [same a0 a; [contradiction|]; same b a; [contradiction|]|]; eapply (V_together s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]|]; eapply (V_first s I); eauto.
    + same i0 i; [|eapply (V_younger s I); eauto]. same a0 a; [destruct H7; [contradiction|]|]; eapply (V_younger s I); eauto.
  - (* Release *) constructor; open; intros; try (destruct I; eauto; fail).
    + destruct (V_vote s I i0 a0 H0) as [X|[X|X]]; auto. same i0 i; auto. same a0 a; auto.
    + same i0 i; [same a0 a; [auto|eapply (V_outside s I); eauto]|eapply (V_outside s I); eauto].
    + same i0 i; [same a0 a; [contradiction|]; same b a; [contradiction|]|]; eapply (V_together s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]|]; eapply (V_first s I); eauto.
    + same i0 i; [|eapply (V_younger s I); eauto]. same a0 a; [contradiction|]. eapply (V_younger s I); eauto.
  - (* Crash *) constructor; open; intros; try (destruct I; eauto; fail).
    + same i0 i; [|apply (V_vote s I); auto]. pose proof (V_promised s I i a). right; right; lia.
    + same i0 i; auto. apply (V_inside s I); auto.
    + same i0 i; auto. apply (V_outside s I); auto.
    + same i0 i; [contradiction|]. eapply (V_together s I); eauto.
    + same i0 i; auto. eapply (V_counter s I); eauto.
    + same i0 i; [contradiction|]. eapply (V_first s I); eauto.
    + destruct (V_value s I _ _ _ _ H0 H1 H2 H3) as [F C]. split; auto. same i0 i; auto.
    + same i0 i; [|eapply (V_younger s I); eauto]. destruct H6; [contradiction|]. eapply (V_younger s I); eauto.
  - (* Rejoin *) rename H into Ho, H0 into Hq, H1 into Hc.
    constructor; open; intros; try (destruct I; eauto; fail).
    + same i0 i; [lia|]. apply (V_inside s I); auto.
    + same i0 i; [discriminate|]. apply (V_outside s I); auto.
    + same i0 i; [right; eauto|]. eapply (V_counter s I); eauto.
    + same i0 i; [exfalso; exact (V_outside s I i a Ho H0)|]. eapply (V_first s I); eauto.
    + destruct (V_value s I _ _ _ _ H H0 H1 H2) as [F C]. split; auto. same i0 i; auto.
      pose proof (V_granted s I _ _ _ _ H) as P.
      destruct (V_vote s I i a) as [X|[X|X]]; [lia|contradiction|exfalso; exact (V_outside s I i a Ho X)|lia].
  - (* Decide *) destruct H as (Hd & Hf & Hm & Hl).
    constructor; simpl; intros; try (destruct I; eauto; fail).
    + same a0 a; [discriminate|eapply V_renewed; eauto].
    + same a0 a; [discriminate|]. destruct H as [X|X]; [eapply V_alive; eauto|contradiction].
    + same b a; [|eapply (V_counter s I); eauto].
      injection H as <-. destruct (Hl i H0) as (x & X1 & X2). eapply (V_value s I); eauto.
    + same a0 a; [discriminate|]. eapply (V_first s I); eauto.
    + same a0 a; [discriminate|]. eapply (V_value s I); eauto.
    + same a0 a; [discriminate|]. same b a; [|eapply (V_younger s I); eauto].
      injection H as <-. exfalso.
      pose proof (live_is_promised s I i a (live_with_is_live _ _ _ _ (Hl i H0))) as P.
      destruct H5 as [V|V].
      * exact (promise_excludes_votes s I i a0 a P Hd V H1).
      * exact (V_excluded s I i a0 a V P H3 Hd H1).
    + same b a; [injection H as <-; auto|eapply V_majority; eauto].
  - (* Finish *) constructor; simpl; intros; try (destruct I; eauto; fail).
    + destruct H. eapply V_alive; eauto.
    + destruct (V_vote s I i a0 H) as [X|[X|X]]; auto.
    + eapply (V_excluded s I i); eauto.
Qed.

(* The invariant holds in every reachable state. *)
Lemma invariant_holds : forall s, reachable s -> Invariant s.
Proof. induction 1; [apply invariant_starts; auto|eapply invariant_step; eauto]. Qed.

(* ------------------------------------------------------------------------------------------------- theorems *)

(* Two attempts that hold at the same instant do not conflict, even if messages were lost, delayed or repeated and nodes
   lost their memory. *)
Theorem mutual_exclusion :
  forall s, reachable s -> forall a b, holds s a -> holds s b -> ~ conflict a b.
Proof.
  intros s R a b (Da & _ & P & MP & LP) (Db & _ & Q & MQ & LQ).
  pose proof (invariant_holds s R) as I. destruct (majorities_meet N P Q MP MQ) as (i & X & Y).
  apply (V_excluded s I i); auto; apply live_is_promised; auto.
Qed.

(* While an attempt holds, no conflicting attempt decides. *)
Theorem no_decision_while_another_holds :
  forall s, reachable s -> forall a b t Q, holds s a -> decides s b t Q -> ~ conflict a b.
Proof.
  intros s R a b t Q (Da & _ & P & MP & LP) (Db & _ & MQ & LQ).
  pose proof (invariant_holds s R) as I. destruct (majorities_meet N P Q MP MQ) as (i & X & Y).
  apply (V_excluded s I i); auto; apply live_is_promised; auto. eapply live_with_is_live; eauto.
Qed.

(* A fence is higher than the fences of all earlier conflicting decisions. *)
Theorem fences_increase :
  forall s, reachable s -> forall a t Q, decides s a t Q -> fenced a ->
  forall b u, fence s b = Some u -> conflict a b -> u < t.
Proof.
  intros s R a t Q (Da & Fa & MQ & L) new b u Fb C. pose proof (invariant_holds s R) as I.
  destruct (majorities_meet N Q (voters s b) MQ (V_majority s I b u Fb)) as (i & X & Y).
  pose proof (live_is_promised s I i a (live_with_is_live _ _ _ _ (L i X))) as P.
  pose proof (V_younger s I i a b u Fb Y C new Da Fa (or_intror P)) as H.
  destruct (L i X) as (x & G & T). destruct (V_value s I i a x t G T Da Fa) as [V _]. lia.
Qed.

(* An attempt that is alive holds. *)
Lemma alive_holds : forall s, reachable s -> forall a, alive s a -> holds s a.
Proof.
  induction 1 as [s H|s s' R IH H]; intros a A; [exfalso; destruct H as (_ & _ & _ & _ & _ & _ & _ & _ & X); eapply X; eauto|].
  pose proof (invariant_holds s R) as I. unfold holds, backed, live in *. destruct H; simpl in *.
  - subst s'. simpl in *. destruct A as (A & B). destruct (IH a A) as (D & F & _). auto.
  - auto.
  - auto.
  - destruct (IH a A) as (D & F & P & M & L). repeat split; auto. exists P. split; auto.
    intros j J. destruct (L j J) as (y & v & G & T). exists y, v. auto.
  - destruct (IH a A) as (D & F & P & M & L). repeat split; auto. exists P. split; auto.
    intros j J. destruct (L j J) as (y & v & G & T). exists y, v. auto.
  - destruct (IH a A) as (D & F & P & M & L). repeat split; auto. exists P. split; auto.
    intros j J. destruct (L j J) as (y & v & G & T). exists y, v. auto.
  - auto.
  - auto.
  - auto.
  - auto.
  - destruct H as (Hd & Hf & Hm & Hl). destruct (Nat.eqb_spec a a0) as [E|E].
    + subst. repeat split; [auto|discriminate|]. exists Q. split; auto. intros j J. destruct (Hl j J) as (y & G & T). eauto.
    + destruct A as [A|A]; [auto|contradiction].
  - destruct A as [A E]. destruct (IH a A) as (D & F & B). repeat split; auto. intros [X|X]; auto.
Qed.

(* An attempt that has held since its decision has the highest fence among all decided attempts that conflict with it. A
   store that checks fences relies on this. *)
Theorem the_holder_has_the_highest_fence :
  forall s, reachable s -> forall a t, alive s a -> fenced a -> fence s a = Some t ->
  forall b u, fence s b = Some u -> conflict a b -> u < t.
Proof.
  induction 1 as [s H|s s' R IH H]; intros a t A new F b u Fb C;
    [exfalso; destruct H as (_ & _ & _ & _ & _ & _ & _ & _ & X); eapply X; eauto|].
  destruct H; simpl in *; try (eapply IH; eauto; fail).
  - subst s'. simpl in *. destruct A as [A _]. eapply IH; eauto.
  - pose proof H as (Hd & Hf & Hm & Hl).
    destruct (Nat.eqb_spec a a0) as [E|E]; destruct (Nat.eqb_spec b a0) as [E'|E']; subst.
    + exfalso. eapply conflict_irreflexive; eauto.
    + injection F as <-. eapply (fences_increase s R); eauto.
    + exfalso. destruct A as [A|A]; [|contradiction].
      exact (no_decision_while_another_holds s R a a0 t0 Q (alive_holds s R a A) H C).
    + destruct A as [A|A]; [|contradiction]. eapply IH; eauto.
  - destruct A as [A _]. eapply IH; eauto.
Qed.

End Protocol.
