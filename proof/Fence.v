(* Fences without any clock.

   Votes may vanish at any moment: they lapse, are released, evicted, or forgotten because a clock jumped. Replies may be
   as late as they like, and clients may sleep for ever and decide on what they find when they wake. Exclusion is lost
   then. Fences are not: those of different attempts differ, and they are ordered like the votes on every node that two
   majorities share. A store that checks fences stays safe.

   The one assumption is about a node's counter: it is kept, or comes back at or above every fence that the node has given
   (A5, the floor; crates/core/src/node/incarnation.rs). README.md has each definition's place in crates/core. *)

Require Import Arith Lia List Bool.
Require Import Majority.

(* As in Lease.v, without all that has to do with time. *)
Definition attempt := nat.

Section NoClocks.

Variable N : nat.

(* ---------------------------------------------------------------------------------------------- definitions *)

Record state := mk {
  vote    : node -> option attempt;
  counter : node -> nat;
  log     : node -> list (attempt * nat);            (* grants to undecided attempts, the newest first *)
  decided : attempt -> option (nat * list node)
}.

Definition update {A} (f : node -> A) (i : node) (x : A) : node -> A := fun j => if Nat.eqb j i then x else f j.

Inductive step (s : state) : state -> Prop :=
| Fresh : forall i a w, vote s i = None -> counter s i < w ->
    step s (mk (update (vote s) i (Some a)) (update (counter s) i w) (update (log s) i ((a, w) :: log s i)) (decided s))
| Again : forall i a w, vote s i = Some a -> decided s a = None -> counter s i <= w ->
    step s (mk (vote s) (update (counter s) i w) (update (log s) i ((a, w) :: log s i)) (decided s))
(* Renewals are for what was decided: nothing is decided by them any more. *)
| Renewed : forall i a w, decided s a <> None -> (vote s i = None \/ vote s i = Some a) -> counter s i <= w ->
    step s (mk (update (vote s) i (Some a)) (update (counter s) i w) (log s) (decided s))
| Vanish : forall i, step s (mk (update (vote s) i None) (counter s) (log s) (decided s))
| Forget : forall i c, (forall a v, In (a, v) (log s i) -> v <= c) ->
    step s (mk (update (vote s) i None) (update (counter s) i c) (log s) (decided s))
| Decide : forall a t Q, decided s a = None -> majority N Q -> (forall i, In i Q -> In (a, t) (log s i)) ->
    step s (mk (vote s) (counter s) (log s) (fun b => if Nat.eqb b a then Some (t, Q) else decided s b)).

Definition starts (s : state) : Prop :=
  (forall i, vote s i = None) /\ (forall i, log s i = nil) /\ (forall a, decided s a = None).

Inductive reachable : state -> Prop :=
| Start : forall s, starts s -> reachable s
| Next  : forall s s', reachable s -> step s s' -> reachable s'.

(* A newer grant is at least as high as an older one, and higher if it went to another attempt. *)
Definition above (newer older : attempt * nat) : Prop :=
  snd older <= snd newer /\ (fst older <> fst newer -> snd older < snd newer).
Inductive ordered : list (attempt * nat) -> Prop :=
| Empty : ordered nil
| Newer : forall g l, ordered l -> (forall o, In o l -> above g o) -> ordered (g :: l).

(* ------------------------------------------------------------------------------------------------ invariant *)

Record Invariant (s : state) : Prop := {
  V_ordered : forall i, ordered (log s i);
  V_counter : forall i a v, In (a, v) (log s i) -> v <= counter s i;
  (* under an undecided attempt's vote, everybody else's fences are below the counter *)
  V_others  : forall i a, vote s i = Some a -> decided s a = None ->
                forall b v, In (b, v) (log s i) -> b <> a -> v < counter s i;
  V_decided : forall a t Q, decided s a = Some (t, Q) -> majority N Q /\ forall i, In i Q -> In (a, t) (log s i)
}.

Ltac open := unfold update in *; simpl in *.
Ltac same j i := destruct (Nat.eqb_spec j i); subst; simpl in *.

(* No step breaks it. *)
Lemma invariant_step : forall s s', Invariant s -> step s s' -> Invariant s'.
Proof.
  intros s s' I H. destruct H.
  - (* Fresh *) constructor; open; intros.
    + same i0 i; [|apply (V_ordered s I)]. constructor; [apply (V_ordered s I)|].
      intros [b v] X. pose proof (V_counter s I i b v X). split; simpl; lia.
    + same i0 i; [|eapply (V_counter s I); eauto].
      destruct H1 as [X|X]; [injection X; lia|pose proof (V_counter s I i a0 v X); lia].
    + same i0 i; [|eapply (V_others s I); eauto].
      injection H1 as <-. destruct H3 as [X|X]; [congruence|]. pose proof (V_counter s I i b v X). lia.
    + destruct (V_decided s I _ _ _ H1) as [M L]. split; auto. intros j X. same j i; [right; apply L; auto|apply L; auto].
  - (* Again *) constructor; open; intros.
    + same i0 i; [|apply (V_ordered s I)]. constructor; [apply (V_ordered s I)|].
      intros [b v] X. pose proof (V_counter s I i b v X). split; simpl; [lia|].
      intros E. pose proof (V_others s I i a H H0 b v X E). lia.
    + same i0 i; [|eapply (V_counter s I); eauto].
      destruct H2 as [X|X]; [injection X; lia|pose proof (V_counter s I i a0 v X); lia].
    + same i0 i; [|eapply (V_others s I); eauto].
      assert (a0 = a) by congruence. subst. destruct H4 as [X|X]; [congruence|].
      pose proof (V_others s I i a H H0 b v X H5). lia.
    + destruct (V_decided s I _ _ _ H2) as [M L]. split; auto. intros j X. same j i; [right; apply L; auto|apply L; auto].
  - (* Renewed *) constructor; open; intros; try (destruct I; eauto; fail).
    + same i0 i; [|eapply (V_counter s I); eauto]. pose proof (V_counter s I i a0 v H2). lia.
    + same i0 i; [|eapply (V_others s I); eauto]. injection H2 as <-. contradiction.
  - (* Vanish *) constructor; open; intros; try (destruct I; eauto; fail).
    same i0 i; [discriminate|]. eapply (V_others s I); eauto.
  - (* Forget *) constructor; open; intros; try (destruct I; eauto; fail).
    + same i0 i; [eauto|]. eapply (V_counter s I); eauto.
    + same i0 i; [discriminate|]. eapply (V_others s I); eauto.
  - (* Decide *) constructor; simpl; intros; try (destruct I; eauto; fail).
    + same a0 a; [discriminate|]. eapply (V_others s I); eauto.
    + same a0 a; [injection H2 as <- <-; auto|]. eapply V_decided; eauto.
Qed.

(* It holds at the beginning, and so in every state that can be reached. *)
Lemma invariant_holds : forall s, reachable s -> Invariant s.
Proof.
  induction 1 as [s (V & L & D)|s s' R IH H]; [|eapply invariant_step; eauto].
  constructor; intros.
  - rewrite L. constructor.
  - rewrite L in H. contradiction.
  - rewrite V in H. discriminate.
  - rewrite D in H. discriminate.
Qed.

(* In an ordered log, different attempts have different fences. *)
Lemma ordered_differ :
  forall l, ordered l -> forall a b v u, In (a, v) l -> In (b, u) l -> a <> b -> v <> u.
Proof.
  induction 1 as [|g l O IH A]; intros a b v u X Y E; [contradiction|].
  destruct X as [X|X]; destruct Y as [Y|Y]; subst.
  - congruence.
  - destruct (A _ Y) as [_ S]. simpl in S. assert (u < v) by (apply S; auto). lia.
  - destruct (A _ X) as [_ S]. simpl in S. assert (v < u) by (apply S; auto). lia.
  - eapply IH; eauto.
Qed.

(* In an ordered log, what stands behind is not higher. *)
Lemma ordered_split :
  forall l1 l2 g o, ordered (l1 ++ g :: l2) -> In o l2 -> above g o.
Proof.
  induction l1 as [|x l1 IH]; intros l2 g o O X; simpl in O; inversion O; subst; [auto|eapply IH; eauto].
Qed.

(* ------------------------------------------------------------------------------------------------- theorems *)

(* Fences of different attempts differ, whatever the clocks do. *)
Theorem fences_differ_without_clocks :
  forall s, reachable s -> forall a b t u P Q, a <> b ->
  decided s a = Some (t, P) -> decided s b = Some (u, Q) -> t <> u.
Proof.
  intros s R a b t u P Q E A B. pose proof (invariant_holds s R) as I.
  destruct (V_decided s I _ _ _ A) as [MP LP]. destruct (V_decided s I _ _ _ B) as [MQ LQ].
  destruct (majorities_meet N P Q MP MQ) as (i & X & Y).
  eapply (ordered_differ (log s i)); eauto. apply (V_ordered s I).
Qed.

(* Fences are ordered like the votes: on a node that both majorities share, the vote that came later has the higher one. *)
Theorem fences_are_ordered_like_votes :
  forall s, reachable s -> forall i a b t u l1 l2, a <> b ->
  log s i = l1 ++ (b, u) :: l2 -> In (a, t) l2 -> t < u.
Proof.
  intros s R i a b t u l1 l2 E L X. pose proof (invariant_holds s R) as I.
  pose proof (V_ordered s I i) as O. rewrite L in O. destruct (ordered_split _ _ _ _ O X) as [_ S]. auto.
Qed.

End NoClocks.
