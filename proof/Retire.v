(* Retirement of an owner: what it ends, and when the owner's holders stop.

   A retirement removes all votes of one owner of one name from a node, and the node then refuses the owner for a while
   (the tombstone). The node does not ask the holder. So a holder may believe in its lease until the grants of a majority no
   longer count, and another owner may hold the lock meanwhile. The theorems say that nothing else goes wrong. They are
   about the model in Model.v: one name, and one generation of nodes.

   The code is `retire`, `refused_for_good` and `is_retired` in crates/core/src/node/. README.md maps each definition. *)

Require Import Arith Lia List Bool.
Require Import Majority Lease.

Section Retirement.

Variable N : nat.
Variable len : attempt -> nat.
Variable longest : nat.
Hypothesis len_bounded : forall a, len a <= longest.
Variable conflict : attempt -> attempt -> Prop.
Hypothesis conflict_symmetric : forall a b, conflict a b -> conflict b a.
Hypothesis conflict_irreflexive : forall a, ~ conflict a a.
Variable fenced : attempt -> Prop.
Variable owner : attempt -> option nat.

Local Notation step := (step N len longest conflict fenced owner).
Local Notation reachable := (reachable N len longest conflict fenced owner).
Local Notation invariant :=
  (invariant_holds N len longest len_bounded conflict conflict_symmetric conflict_irreflexive fenced owner).

(* Steps lead from a state to a later state, and every state on the way satisfies P. *)
Inductive leads (P : state -> Prop) (s : state) : state -> Prop :=
| Here : P s -> leads P s s
| On   : forall s' s'', leads P s s' -> step s' s'' -> P s'' -> leads P s s''.

(* Every node of Q refuses the owner. *)
Definition all_refuse (Q : list node) (o : nat) (s : state) : Prop := forall i, In i Q -> refuses s i o.

(* Every node of Q refuses the owner for longer than the longest lease lasts. *)
Definition all_refuse_for_long (Q : list node) (o : nat) (s : state) : Prop :=
  forall i, In i Q -> now s + longest <= refused s i o.

(* A majority has granted requests that were sent by the moment t, and these grants still count. *)
Definition backed_by_requests_until (t : nat) (s : state) (a : attempt) : Prop :=
  exists P, majority N P /\ forall i, In i P -> exists x w, granted s i a x w /\ x <= t /\ now s < x + len a.

(* A state that is later than a reachable state is reachable, and time does not run backwards. *)
Lemma later_is_reachable : forall P s s', reachable s -> leads P s s' -> reachable s'.
Proof. induction 2; auto. eapply Next; eauto. Qed.
Lemma time_passes : forall s s', step s s' -> now s <= now s'.
Proof. destruct 1; subst; simpl; lia. Qed.
Lemma later_is_not_before : forall P s s', leads P s s' -> now s <= now s'.
Proof. induction 1 as [|s' s'' L IH H]; auto. pose proof (time_passes s' s'' H). lia. Qed.

(* If steps lead from s to s', and from s' to s'', then they lead from s to s''. *)
Lemma leads_further : forall P P' s s' s'', leads P s s' -> leads P' s' s'' -> (forall x, P' x -> P x) -> leads P s s''.
Proof.
  intros P P' s s' s'' L L' W. induction L' as [|t t' L' IH H B]; auto. eapply On; eauto.
Qed.

(* A step adds a grant only on a node that may vote and admits the attempt. *)
Lemma a_new_grant_is_admitted : forall s s', step s s' -> forall i a x w, granted s' i a x w ->
  granted s i a x w \/ (admits owner s i a /\ outside s i = false /\ now s' = now s).
Proof.
  intros s s' H j b y v G. destruct H; try subst s'; unfold after_retirement in *; simpl in *; auto;
    destruct G as [G|(J & B & _)]; auto; subst; right; auto.
Qed.

(* ------------------------------------------------------------------------------------------------- theorems *)

(* On a node, a retirement ends all entries of the owner and no other entry, and the node refuses this owner and no other. *)
Theorem a_retirement_ends_the_entries_of_one_owner :
  forall s i o d, let s' := after_retirement owner s i o d in
  (forall a, owner a = Some o -> ~ vote s' i a) /\ (0 < d -> refuses s' i o) /\
  (forall j a, j <> i \/ owner a <> Some o -> (vote s' j a <-> vote s j a)) /\
  (forall j p, j <> i \/ p <> o -> refused s' j p = refused s j p).
Proof.
  intros s i o d. unfold after_retirement, refuses, update2. simpl. repeat split.
  - intros a E [_ X]. auto.
  - intros D. rewrite !Nat.eqb_refl. lia.
  - tauto.
  - auto.
  - tauto.
  - intros j p D. destruct (Nat.eqb_spec j i); destruct (Nat.eqb_spec p o); auto. tauto.
Qed.

(* As long as a node refuses an owner, it has no vote of the owner. *)
Theorem a_refused_owner_has_no_vote :
  forall s, reachable s -> forall i o, refuses s i o -> forall a, owner a = Some o -> ~ vote s i a.
Proof. intros s R i o F a E. exact (V_refused _ _ _ _ _ _ s (invariant s R) i a o F E). Qed.

(* As long as the nodes of Q refuse an owner, they grant nothing to it. *)
Lemma a_refused_owner_gets_no_grant :
  forall Q o s s', leads (all_refuse Q o) s s' -> forall i a x w, In i Q -> owner a = Some o ->
  granted s' i a x w -> granted s i a x w.
Proof.
  intros Q o s s'. induction 1 as [|s' s'' L IH H B]; intros i a x w X E G; auto.
  destruct (a_new_grant_is_admitted s' s'' H i a x w G) as [G'|(A & _)]; [eauto|].
  exfalso. apply (A o E). assert (B' : all_refuse Q o s') by (destruct L; auto). exact (B' i X).
Qed.

(* If a majority has retired an owner, then as long as this majority refuses the owner, the owner gets no majority: its
   holders for a renewal, and its new attempts for an acquire. *)
Theorem a_retired_owner_gets_no_majority :
  forall Q o s s', reachable s -> majority N Q -> leads (all_refuse Q o) s s' ->
  forall a P, owner a = Some o -> majority N P ->
  ~ forall i, In i P -> exists x w, granted s' i a x w /\ now s < x.
Proof.
  intros Q o s s' R M L a P E MP G. destruct (majorities_meet N P Q MP M) as (i & X & Y).
  destruct (G i X) as (x & w & g & later).
  pose proof (a_refused_owner_gets_no_grant Q o s s' L i a x w Y E g) as g'.
  pose proof (V_sent _ _ _ _ _ _ s (invariant s R) i a x w g'). lia.
Qed.

(* Suppose that a majority has retired an owner, and refuses the owner since then. Once the length of a lease has passed,
   the owner holds nothing. *)
Theorem a_retired_owner_stops :
  forall Q o s s', reachable s -> majority N Q -> leads (all_refuse Q o) s s' ->
  forall a, owner a = Some o -> now s + len a <= now s' -> ~ backed N len s' a.
Proof.
  intros Q o s s' R M L a E T (P & MP & B). destruct (majorities_meet N P Q MP M) as (i & X & Y).
  destruct (B i X) as (x & w & g & count).
  pose proof (a_refused_owner_gets_no_grant Q o s s' L i a x w Y E g) as g'.
  pose proof (V_sent _ _ _ _ _ _ s (invariant s R) i a x w g'). lia.
Qed.

(* Suppose that a majority has retired an owner, and refuses the owner since then. Once the length of the longest lease has
   passed, all holders exclude each other again, if no other owner was retired. *)
Theorem exclusion_returns_after_a_retirement :
  forall Q o s s', reachable s -> majority N Q -> leads (all_refuse Q o) s s' -> now s + longest <= now s' ->
  (forall c, retired s' c -> owner c = Some o) ->
  forall a b, holds N len s' a -> holds N len s' b -> ~ conflict a b.
Proof.
  intros Q o s s' R M L T only a b A B.
  assert (stopped : forall c, holds N len s' c -> ~ retired s' c).
  { intros c (_ & _ & K) X. pose proof (len_bounded c). revert K.
    apply (a_retired_owner_stops Q o s s' R M L); [auto|lia]. }
  apply (mutual_exclusion N len longest len_bounded conflict conflict_symmetric conflict_irreflexive fenced owner s');
    auto. exact (later_is_reachable _ s s' R L).
Qed.

(* A node of Q refuses the owner, or is in quarantine, until every request that was sent before has ended. *)
Lemma closed_for_long :
  forall Q o s s', reachable s -> leads (fun _ => True) s s' -> all_refuse_for_long Q o s -> forall i, In i Q ->
  now s + longest <= refused s' i o \/ now s + longest <= ripe_at s' i.
Proof.
  intros Q o s s' R L. induction L as [|s' s'' L IH H _]; intros F i X; [left; auto|].
  pose proof (IH F i X) as C. pose proof (later_is_not_before _ s s' L) as T.
  destruct H; try subst s'0; unfold after_retirement, update, update2 in *; simpl in *; auto.
  - destruct (Nat.eqb_spec i i0); destruct (Nat.eqb_spec o o0); subst; simpl in *; auto. destruct C; [left; lia|auto].
  - destruct (Nat.eqb_spec i i0); subst; auto. right. lia.
Qed.

(* No request from before a retirement gets the owner the lock. Suppose that a majority has retired the owner of an
   attempt, and that until then none of these nodes had granted the attempt. Then the attempt is never backed by requests
   that it sent until then. They may arrive at any later moment, even after the nodes have stopped refusing the owner or
   have lost their memory. *)
Theorem requests_from_before_a_retirement_do_not_count :
  forall Q o s s', reachable s -> majority N Q -> all_refuse_for_long Q o s -> leads (fun _ => True) s s' ->
  forall a, owner a = Some o -> (forall i, In i Q -> ~ live len s i a) -> ~ backed_by_requests_until (now s) s' a.
Proof.
  intros Q o s s' R M F L a E none (P & MP & B). destruct (majorities_meet N P Q MP M) as (i & X & Y).
  destruct (B i X) as (x & w & g & before & count). apply (none i Y). exists x, w.
  pose proof (later_is_not_before _ s s' L). split; [|lia].
  clear - len_bounded R F L E Y g before count conflict_symmetric conflict_irreflexive.
  induction L as [|s' s'' L IH H _]; auto. pose proof (time_passes s' s'' H) as T.
  destruct (a_new_grant_is_admitted s' s'' H i a x w g) as [g'|(A & O & _)]; [apply IH; auto; lia|].
  exfalso. pose proof (len_bounded a). pose proof (A o E) as open. unfold refuses in open.
  destruct (closed_for_long Q o s s' R L F i Y) as [C|C]; [lia|].
  assert (outside s' i = true); [|congruence].
  apply (V_inside _ _ _ _ _ _ s' (invariant s' (later_is_reachable _ s s' R L))). lia.
Qed.

End Retirement.
