(* Fences without assumptions about clocks.

   Votes may vanish at any moment: they expire, are released or evicted, their owner is retired, somebody breaks the lease,
   or a node forgets them because a clock jumped. Replies may be late without bound, and clients may pause without bound and
   then decide. Leases may then overlap. Fences of conflicting attempts still differ, and they have the order of the votes
   on every node that two majorities share. So a store that checks fences stays safe.

   The conflict relation, and which attempts need a new fence, are parameters, as in Lease.v. Kinds.v has the relations.

   The one assumption is about the counter of a node that forgets its votes: afterwards the counter is at or above every
   fence that the node has granted (A5, the floor; crates/core/src/node/restart.rs). The proof is about one name and one
   generation: the N nodes never change. README.md maps each definition to the code in crates/core. *)

Require Import Arith Lia List Bool.
Require Import Majority.

(* These definitions are those of Model.v, without the parts about time. *)
Definition attempt := nat.

Section NoClocks.

Variable N : nat.
Variable conflict : attempt -> attempt -> Prop.
Hypothesis conflict_symmetric : forall a b, conflict a b -> conflict b a.
Hypothesis conflict_irreflexive : forall a, ~ conflict a a.
Variable fenced : attempt -> Prop.

(* ---------------------------------------------------------------------------------------------- definitions *)

Record state := mk {
  vote    : node -> attempt -> Prop;
  counter : node -> nat;
  log     : node -> list (attempt * nat);            (* grants to undecided attempts, newest first *)
  decided : attempt -> option (nat * list node)
}.

Definition update {A} (f : node -> A) (i : node) (x : A) : node -> A := fun j => if Nat.eqb j i then x else f j.
Definition update2 (f : node -> attempt -> Prop) (i : node) (a : attempt) (x : Prop) : node -> attempt -> Prop :=
  fun j b => if Nat.eqb j i then (if Nat.eqb b a then x else f j b) else f j b.

Inductive step (s : state) : state -> Prop :=
| Fresh : forall i a w, (forall b, vote s i b -> ~ conflict a b) -> (fenced a -> counter s i < w) ->
    step s (mk (update2 (vote s) i a True) (update (counter s) i (Nat.max (counter s i) w))
      (update (log s) i ((a, w) :: log s i)) (decided s))
| Again : forall i a w, vote s i a -> decided s a = None -> counter s i <= w ->
    step s (mk (vote s) (update (counter s) i w) (update (log s) i ((a, w) :: log s i)) (decided s))
(* Only a decided attempt renews. A grant of a renewal is not in the log, because it does not count for a decision. *)
| Renewed : forall i a w, decided s a <> None -> (forall b, vote s i b -> ~ conflict a b) ->
    step s (mk (update2 (vote s) i a True) (update (counter s) i (Nat.max (counter s i) w)) (log s) (decided s))
| Vanish : forall i a, step s (mk (update2 (vote s) i a False) (counter s) (log s) (decided s))
| Forget : forall i c, (forall a v, In (a, v) (log s i) -> v <= c) ->
    step s (mk (update (vote s) i (fun _ => False)) (update (counter s) i c) (log s) (decided s))
| Decide : forall a t Q, decided s a = None -> majority N Q -> (forall i, In i Q -> In (a, t) (log s i)) ->
    step s (mk (vote s) (counter s) (log s) (fun b => if Nat.eqb b a then Some (t, Q) else decided s b)).

Definition starts (s : state) : Prop :=
  (forall i a, ~ vote s i a) /\ (forall i, log s i = nil) /\ (forall a, decided s a = None).

Inductive reachable : state -> Prop :=
| Start : forall s, starts s -> reachable s
| Next  : forall s s', reachable s -> step s s' -> reachable s'.

(* The fence of a newer grant is higher than that of an older grant, if the two attempts conflict. *)
Definition above (newer older : attempt * nat) : Prop :=
  conflict (fst newer) (fst older) -> fenced (fst newer) -> snd older < snd newer.
Inductive ordered : list (attempt * nat) -> Prop :=
| Empty : ordered nil
| Newer : forall g l, ordered l -> (forall o, In o l -> above g o) -> ordered (g :: l).

(* ------------------------------------------------------------------------------------------------ invariant *)

Record Invariant (s : state) : Prop := {
  V_ordered : forall i, ordered (log s i);
  V_counter : forall i a v, In (a, v) (log s i) -> v <= counter s i;
  (* two votes of one node do not conflict *)
  V_together : forall i a b, vote s i a -> vote s i b -> ~ conflict a b;
  (* while a node has an undecided attempt's vote, the fences of all conflicting grants are below the node's counter *)
  V_others  : forall i a, vote s i a -> decided s a = None -> fenced a ->
                forall b v, In (b, v) (log s i) -> conflict a b -> v < counter s i;
  V_decided : forall a t Q, decided s a = Some (t, Q) -> majority N Q /\ forall i, In i Q -> In (a, t) (log s i)
}.

Ltac open := unfold update, update2 in *; simpl in *.
Ltac same j i := destruct (Nat.eqb_spec j i); subst; simpl in *.

(* A vote that conflicts with no vote of the node may be added. *)
Lemma vote_joins :
  forall s, Invariant s -> forall i a, (forall b, vote s i b -> ~ conflict a b) ->
  forall j b c, update2 (vote s) i a True j b -> update2 (vote s) i a True j c -> ~ conflict b c.
Proof.
  intros s I i a H j b c X Y. open. same j i; [|exact (V_together s I j b c X Y)]. same b a; same c a.
  - apply conflict_irreflexive.
  - auto.
  - intros C. apply (H b X). auto.
  - exact (V_together s I i b c X Y).
Qed.

(* Every step preserves the invariant. *)
Lemma invariant_step : forall s s', Invariant s -> step s s' -> Invariant s'.
Proof.
  intros s s' I H. destruct H as [i a w free new|i a w own H high|i a w H free|i a|i c H|a t Q H M L].
  - (* Fresh *) constructor; try (exact (vote_joins s I i a free)); open.
    + intros j. same j i; [|apply (V_ordered s I)]. constructor; [apply (V_ordered s I)|].
      intros [b v] X. pose proof (V_counter s I i b v X). intros _ F. simpl in *. pose proof (new F). lia.
    + intros j b v X. same j i; [|eapply (V_counter s I); eauto].
      destruct X as [X|X]; [injection X; lia|pose proof (V_counter s I i b v X); lia].
    + intros j b V D F c v X C. same j i; [|eapply (V_others s I); eauto]. same b a.
      * destruct X as [X|X]; [injection X as <- _; exfalso; exact (conflict_irreflexive a C)|].
        pose proof (V_counter s I i c v X). pose proof (new F). lia.
      * destruct X as [X|X]; [injection X as <- _; exfalso; exact (free b V (conflict_symmetric b a C))|].
        pose proof (V_others s I i b V D F c v X C). lia.
    + intros b t Q D. destruct (V_decided s I _ _ _ D) as [M L]. split; auto.
      intros j X. same j i; [right; apply L; auto|apply L; auto].
  - (* Again *) constructor; open.
    + intros j. same j i; [|apply (V_ordered s I)]. constructor; [apply (V_ordered s I)|].
      intros [b v] X C F. simpl in *. pose proof (V_others s I i a own H F b v X C). lia.
    + intros j b v X. same j i; [|eapply (V_counter s I); eauto].
      destruct X as [X|X]; [injection X; lia|pose proof (V_counter s I i b v X); lia].
    + exact (V_together s I).
    + intros j b V D F c v X C. same j i; [|eapply (V_others s I); eauto].
      destruct X as [X|X]; [injection X as <- _; exfalso; exact (V_together s I i b a V own C)|].
      pose proof (V_others s I i b V D F c v X C). lia.
    + intros b t Q D. destruct (V_decided s I _ _ _ D) as [M L]. split; auto.
      intros j X. same j i; [right; apply L; auto|apply L; auto].
  - (* Renewed *) constructor; try (exact (vote_joins s I i a free)); try (destruct I; eauto; fail); open.
    + intros j b v X. same j i; [|eapply (V_counter s I); eauto]. pose proof (V_counter s I i b v X). lia.
    + intros j b V D F c v X C. same j i; [|eapply (V_others s I); eauto]. same b a; [contradiction|].
      pose proof (V_others s I i b V D F c v X C). lia.
  - (* Vanish *) constructor; try (destruct I; eauto; fail); open.
    + intros j b c X Y. same j i; [|eapply (V_together s I); eauto].
      same b a; [contradiction|]. same c a; [contradiction|]. eapply (V_together s I); eauto.
    + intros j b V D F c v X C. same j i; [same b a; [contradiction|]|]; eapply (V_others s I); eauto.
  - (* Forget *) constructor; try (destruct I; eauto; fail); open.
    + intros j b v X. same j i; [eauto|]. eapply (V_counter s I); eauto.
    + intros j b d X Y. same j i; [contradiction|]. eapply (V_together s I); eauto.
    + intros j b V D F d v X C. same j i; [contradiction|]. eapply (V_others s I); eauto.
  - (* Decide *) constructor; simpl; try (destruct I; eauto; fail).
    + intros j b V D F c v X C. same b a; [discriminate|]. eapply (V_others s I); eauto.
    + intros b u P D. same b a; [injection D as <- <-; auto|]. eapply V_decided; eauto.
Qed.

(* The invariant holds in every reachable state. *)
Lemma invariant_holds : forall s, reachable s -> Invariant s.
Proof.
  induction 1 as [s (V & L & D)|s s' R IH H]; [|eapply invariant_step; eauto].
  constructor; intros.
  - rewrite L. constructor.
  - rewrite L in H. contradiction.
  - exfalso. exact (V i a H).
  - exfalso. exact (V i a H).
  - rewrite D in H. discriminate.
Qed.

(* In an ordered log, attempts in conflict have different fences. *)
Lemma ordered_differ :
  forall l, ordered l -> forall a b v u, In (a, v) l -> In (b, u) l -> conflict a b -> fenced a -> fenced b -> v <> u.
Proof.
  induction 1 as [|g l O IH A]; intros a b v u X Y C Fa Fb; [contradiction|].
  destruct X as [X|X]; destruct Y as [Y|Y]; subst.
  - injection Y as <- _. exfalso. exact (conflict_irreflexive a C).
  - pose proof (A _ Y) as S. unfold above in S. simpl in S. assert (u < v) by (apply S; auto). lia.
  - pose proof (A _ X) as S. unfold above in S. simpl in S. assert (v < u) by (apply S; auto). lia.
  - eapply IH; eauto.
Qed.

(* In an ordered log, a newer grant is above each older grant. *)
Lemma ordered_split :
  forall l1 l2 g o, ordered (l1 ++ g :: l2) -> In o l2 -> above g o.
Proof.
  induction l1 as [|x l1 IH]; intros l2 g o O X; simpl in O; inversion O; subst; [auto|eapply IH; eauto].
Qed.

(* ------------------------------------------------------------------------------------------------- theorems *)

(* Conflicting attempts get different fences. No assumption about clocks is needed. *)
Theorem fences_differ_without_clocks :
  forall s, reachable s -> forall a b t u P Q, conflict a b -> fenced a -> fenced b ->
  decided s a = Some (t, P) -> decided s b = Some (u, Q) -> t <> u.
Proof.
  intros s R a b t u P Q C Fa Fb A B. pose proof (invariant_holds s R) as I.
  destruct (V_decided s I _ _ _ A) as [MP LP]. destruct (V_decided s I _ _ _ B) as [MQ LQ].
  destruct (majorities_meet N P Q MP MQ) as (i & X & Y).
  apply (ordered_differ (log s i) (V_ordered s I i) a b); auto.
Qed.

(* Fences are ordered like the votes: on a node that both majorities share, the later vote has the higher fence. *)
Theorem fences_are_ordered_like_votes :
  forall s, reachable s -> forall i a b t u l1 l2, conflict b a -> fenced b ->
  log s i = l1 ++ (b, u) :: l2 -> In (a, t) l2 -> t < u.
Proof.
  intros s R i a b t u l1 l2 C F L X. pose proof (invariant_holds s R) as I.
  pose proof (V_ordered s I i) as O. rewrite L in O. pose proof (ordered_split _ _ _ _ O X) as S. unfold above in S. auto.
Qed.

End NoClocks.
