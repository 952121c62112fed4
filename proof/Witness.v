(* Witnesses: the hypotheses of the theorems can be true together. A theorem with contradictory hypotheses would say nothing.

   This file builds reachable states in which attempts hold, in which one lease follows another, in which every kind of lock
   is held, and in which an owner is retired. Witnesses of the theorems about fences without clocks and about the client's
   computation follow at the end. *)

Require Import Arith Lia List Bool QArith Lqa.
Require Import Majority Lease Kinds Retire.
Require Fence Validity.
Import ListNotations.
Open Scope nat_scope.

Section AnyLock.

Variable N : nat.
Hypothesis some_nodes : 0 < N.
Variable len : attempt -> nat.
Variable longest : nat.
Variable conflict : attempt -> attempt -> Prop.
Variable fenced : attempt -> Prop.
Variable owner : attempt -> option nat.

Local Notation reachable := (reachable N len longest conflict fenced owner).
Local Notation leads := (leads N len longest conflict fenced owner).

(* No node has a vote or a fence, and no attempt has begun. *)
Definition blank : state :=
  mk 0 (fun _ _ => False) (fun _ => 0) (fun _ => false) (fun _ => 0) (fun _ _ => 0) (fun _ _ => 0) (fun _ _ _ _ => False)
    (fun _ _ _ => False) (fun _ _ _ _ => False) (fun _ => False) (fun _ => None) (fun _ => []) (fun _ => False)
    (fun _ _ => 0) (fun _ => False) (fun _ => False).

Lemma blank_is_reachable : reachable blank.
Proof. apply Start. unfold starts, blank. simpl. repeat split; auto. Qed.

(* Every node may grant a vote to the attempt. *)
Definition ready (s : state) (a : attempt) : Prop :=
  (forall i, outside s i = false) /\ (forall i, admits owner s i a) /\ (forall i, ~ vote s i a) /\
  (forall i b, vote s i b -> ~ conflict a b) /\ ~ done s a /\ fence s a = None.

(* What does not change while nodes grant votes to an attempt. *)
Definition same_but_votes (s s' : state) : Prop :=
  now s' = now s /\ outside s' = outside s /\ done s' = done s /\ fence s' = fence s /\ voters s' = voters s /\
  alive s' = alive s /\ refused s' = refused s /\ retired s' = retired s /\ late s' = late s.

(* No time passes, and no node begins or ceases to refuse an owner. *)
Definition at_once (s x : state) : Prop := now x = now s /\ refused x = refused s.

(* The first n nodes grant a vote to an attempt that is ready. *)
Lemma nodes_grant :
  forall s a w, ready s a -> (forall i, counter s i < w) -> forall n,
  exists s', leads (at_once s) s s' /\ same_but_votes s s' /\
    (forall i, i < n -> granted s' i a (now s) w) /\
    (forall i b x v, granted s i b x v -> granted s' i b x v) /\
    (forall i b x p, asked s i b x p -> asked s' i b x p) /\
    (forall i b x v, granted s' i b x v -> granted s i b x v \/ b = a) /\
    (forall i b, vote s' i b -> vote s i b \/ (b = a /\ i < n)) /\
    (forall i, n <= i -> counter s' i = counter s i) /\ (forall i, counter s' i <= w).
Proof.
  intros s a w (O & A & V & C & D & F) W. induction n as [|n IH].
  - exists s. unfold same_but_votes. split; [apply Here; split; auto|]. repeat split; auto; [lia|].
    intros i. pose proof (W i). lia.
  - destruct IH as (s' & R' & (E1 & E2 & E3 & E4 & E5 & E6 & E7 & E8 & E9) & G & H & K & L & V' & T & U).
    assert (D' : ~ done s' a) by (rewrite E3; exact D).
    assert (J : at_once s s') by (split; auto).
    pose proof (On _ _ _ _ _ _ _ _ _ _ R' (Ask N len longest conflict fenced owner s' n a w D') J) as R1.
    eexists. split; [eapply On; [exact R1|eapply (GrantFresh _ _ _ _ _ _ _ n a (now s') w w); simpl|]|].
    + auto.
    + rewrite E2. auto.
    + intros o Ho. unfold refuses. simpl. rewrite E1, E7. apply (A n o Ho).
    + intros X. destruct (V' n a X) as [Y|[_ Y]]; [exact (V n Y)|lia].
    + intros b X. destruct (V' n b X) as [Y|[_ Y]]; [exact (C n b Y)|lia].
    + intros _. rewrite (T n); auto.
    + split; auto.
    + unfold same_but_votes. simpl. repeat split; auto.
      * intros i Hi. rewrite E1. destruct (Nat.eq_dec i n); [right; auto|left; apply G; lia].
      * intros i b x v [X|(X & Y & _)]; [apply L in X; tauto|auto].
      * intros i b X. unfold update2 in X. destruct (Nat.eqb_spec i n); [destruct (Nat.eqb_spec b a)|]; subst; auto;
          destruct (V' _ _ X) as [Y|[Y Z]]; auto.
      * intros i Hi. unfold update. destruct (Nat.eqb_spec i n); [lia|]. apply T. lia.
      * intros i. unfold update. pose proof (U n). pose proof (U i). destruct (Nat.eqb_spec i n); lia.
Qed.

(* All nodes are a majority. *)
Lemma all_nodes_are_a_majority : majority N (seq 0 N).
Proof.
  split; [apply seq_NoDup|split]; [|rewrite seq_length; lia]. intros i H. apply in_seq in H. lia.
Qed.

(* An attempt that is ready may win. Other attempts that hold continue to hold. *)
Lemma a_ready_attempt_wins :
  forall s a w, ready s a -> (forall i, counter s i < w) -> 0 < len a ->
  (exists s', leads (at_once s) s s' /\ same_but_votes s s' /\ decides N len s' a w (seq 0 N) /\
    (forall i b, vote s' i b -> vote s i b \/ (b = a /\ i < N)) /\ (forall i, i < N -> granted s' i a (now s) w) /\
    (forall i, counter s' i <= w)) /\
  (exists s', leads (at_once s) s s' /\ now s' = now s /\ outside s' = outside s /\ done s' = done s /\
    refused s' = refused s /\ retired s' = retired s /\ alive s' a /\ fence s' a = Some w /\
    (forall b, alive s b -> alive s' b) /\ (forall b, b <> a -> fence s' b = fence s b) /\
    (forall i b, vote s' i b -> vote s i b \/ (b = a /\ i < N)) /\
    (forall i b x v, granted s' i b x v -> granted s i b x v \/ b = a) /\ (forall i, counter s' i <= w) /\
    (forall b, late s' b -> late s b \/ retired s b) /\ (forall i b x p, asked s i b x p -> asked s' i b x p) /\
    (forall i b x v, granted s i b x v -> granted s' i b x v)).
Proof.
  intros s a w Y W L. destruct (nodes_grant s a w Y W N) as (s' & R' & E & G & H & K & M & V & _ & C).
  destruct Y as (_ & _ & _ & _ & D & F). pose proof E as (E1 & E2 & E3 & E4 & E5 & E6 & E7 & E8 & E9).
  assert (dec : decides N len s' a w (seq 0 N)).
  { split; [congruence|split; [congruence|split; [apply all_nodes_are_a_majority|]]].
    intros i X. apply in_seq in X. exists (now s). split; [apply G; lia|lia]. }
  split; [exists s'; exact (conj R' (conj E (conj dec (conj V (conj G C)))))|].
  eexists. split; [eapply On; [exact R'|apply (Decide _ _ _ _ _ _ s' a w (seq 0 N) dec)|split; auto]|].
  simpl. repeat split; auto.
  - rewrite Nat.eqb_refl. auto.
  - intros b A. rewrite E6. auto.
  - intros b B. destruct (Nat.eqb_spec b a); [contradiction|congruence].
  - rewrite E8, E9. intros b [X|[-> X]]; auto.
Qed.

(* Attempts that are pairwise not in conflict can hold together. *)
Lemma attempts_hold_together :
  forall l, NoDup l -> (forall a, In a l -> 0 < len a) -> (forall a b, In a l -> In b l -> ~ conflict a b) ->
  exists s, reachable s /\ now s = 0 /\ (forall i, outside s i = false) /\ (forall a, ~ done s a) /\
    (forall i o, refused s i o = 0) /\ (forall a, ~ retired s a) /\
    (forall a, In a l -> alive s a /\ fence s a <> None) /\ (forall a, ~ In a l -> fence s a = None) /\
    (forall i a, vote s i a -> In a l /\ i < N) /\
    (forall i a x w, granted s i a x w -> In a l) /\ (forall i, counter s i <= length l) /\ (forall a, ~ late s a).
Proof.
  induction l as [|a l IH]; intros D L C.
  - exists blank. split; [apply blank_is_reachable|]. unfold blank. simpl. repeat split; auto; contradiction.
  - inversion D; subst. destruct IH as (s & R & T & O & U & F & Y & A & B & V & G & K & M);
      [assumption|simpl in *; auto|simpl in *; auto|].
    assert (Z : ready s a).
    { repeat split; auto.
      - intros i o _. unfold refuses. rewrite F, T. lia.
      - intros i X. apply V in X. tauto.
      - intros i b X. apply V in X. apply C; simpl; tauto. }
    destruct (a_ready_attempt_wins s a (S (length l)) Z)
      as [_ (s' & R' & E1 & E2 & E3 & E4 & E5 & H1' & H3 & H4 & H5 & H6 & H7 & H8 & H9 & _)].
    { intros i. pose proof (K i). lia. }
    { apply L. simpl. auto. }
    exists s'. split; [exact (later_is_reachable _ _ _ _ _ _ _ _ _ R R')|].
    rewrite E1, E2, E3, E4, E5. repeat split; auto; simpl.
    + destruct H as [X|X]; [subst; auto|apply H4; apply A; auto].
    + destruct H as [X|X]; [subst; congruence|]. rewrite H5; [apply A; auto|]. intros ->. contradiction.
    + intros b X. rewrite H5; [apply B; tauto|]. intros ->. tauto.
    + apply H6 in H. destruct H as [X|[X _]]; [apply V in X; tauto|auto].
    + apply H6 in H. destruct H as [X|[_ X]]; [apply V in X; tauto|auto].
    + intros i b x w X. apply H7 in X. destruct X as [X|X]; [right; eapply G; eauto|auto].
    + intros b X. apply H9 in X. destruct X as [X|X]; [exact (M b X)|exact (Y b X)].
Qed.

End AnyLock.

(* ------------------------------------------------------------------------------------------------- theorems *)

(* Three nodes. Every lease lasts 27 units of time, and no lease lasts longer than 60. *)
Definition lasts (a : attempt) : nat := 27.
Definition all_fenced (a : attempt) : Prop := True.

Lemma lasts_is_bounded : forall a, lasts a <= 60.
Proof. unfold lasts. lia. Qed.

(* Lease.v, and the exclusive lock: the parameters satisfy every hypothesis, and a reachable state has a valid lease. *)
Theorem a_live_lease_is_reachable :
  (forall a, lasts a <= 60) /\ (forall a b, exclusive a b -> exclusive b a) /\ (forall a, ~ exclusive a a) /\
  exists s, reachable 3 lasts 60 exclusive all_fenced no_owner s /\
    alive s 1 /\ holds 3 lasts s 1 /\ ~ retired s 1.
Proof.
  split; [exact lasts_is_bounded|]. split; [exact exclusive_symmetric|]. split; [exact exclusive_irreflexive|].
  destruct (attempts_hold_together 3 ltac:(lia) lasts 60 exclusive all_fenced no_owner [1])
    as (s & R & _ & _ & _ & _ & T & A & _).
  - repeat constructor; auto.
  - unfold lasts. intros. lia.
  - unfold exclusive. simpl. intuition congruence.
  - exists s. destruct (A 1); simpl; auto. repeat split; auto; eapply alive_holds; eauto.
Qed.

(* A lock with any number of nodes, any ttls and any kind of conflict can be held. *)
Theorem every_lock_can_be_held :
  forall N len longest conflict fenced owner a, 0 < N -> 0 < len a -> ~ conflict a a ->
  exists s, reachable N len longest conflict fenced owner s /\ alive s a /\ holds N len s a /\ ~ retired s a.
Proof.
  intros N len longest conflict fenced owner a P L C.
  destruct (attempts_hold_together N P len longest conflict fenced owner [a]) as (s & R & _ & _ & _ & _ & T & A & _).
  - repeat constructor; auto.
  - intros b [<-|[]]. auto.
  - intros b c [<-|[]] [<-|[]]. auto.
  - exists s. destruct (A a); simpl; auto. repeat split; auto; eapply alive_holds; eauto.
Qed.

(* Two attempts that are not in conflict can hold together. *)
Lemma two_hold_together :
  forall conflict owner, ~ conflict 1 1 -> ~ conflict 2 2 -> ~ conflict 1 2 -> ~ conflict 2 1 ->
  exists s, reachable 3 lasts 60 conflict all_fenced owner s /\
    forall a, a = 1 \/ a = 2 -> holds 3 lasts s a /\ ~ retired s a.
Proof.
  intros conflict owner C1 C2 C3 C4.
  destruct (attempts_hold_together 3 ltac:(lia) lasts 60 conflict all_fenced owner [1; 2])
    as (s & R & _ & _ & _ & _ & T & A & _).
  - repeat constructor; simpl; intuition congruence.
  - unfold lasts. intros. lia.
  - intros a b [<-|[<-|[]]] [<-|[<-|[]]]; auto.
  - exists s. split; auto. intros a H. destruct (A a); simpl; [intuition|]. split; auto. eapply alive_holds; eauto.
Qed.

(* Kinds.v: two readers, two entries of one owner and the holders of two slots can hold together, also if the name is used
   with several kinds. *)
Theorem several_holders_are_reachable :
  (exists s, reachable 3 lasts 60 (shared (fun _ => False)) all_fenced (fun a => Some a) s /\
    forall a, a = 1 \/ a = 2 -> holds 3 lasts s a /\ ~ retired s a) /\
  (exists s, reachable 3 lasts 60 (reentrant (fun _ => 7)) all_fenced (fun _ => Some 7) s /\
    forall a, a = 1 \/ a = 2 -> holds 3 lasts s a /\ ~ retired s a) /\
  (exists s, reachable 3 lasts 60 (slots (fun a => a mod 2)) all_fenced no_owner s /\
    forall a, a = 1 \/ a = 2 -> holds 3 lasts s a /\ ~ retired s a) /\
  (exists s, reachable 3 lasts 60 (mixed Shared) all_fenced (fun a => owner_of (Shared a)) s /\
    forall a, a = 1 \/ a = 2 -> holds 3 lasts s a /\ ~ retired s a).
Proof.
  split; [|split; [|split]]; apply two_hold_together; unfold shared, reentrant, slots, mixed; simpl; intuition congruence.
Qed.

(* One lease follows another: attempt 1 won, finished and released its votes, and attempt 2 has what it needs to decide. After
   its decision, attempt 2 holds. This satisfies the hypotheses of the theorems about fences. *)
Theorem a_second_lease_is_reachable :
  (exists s, reachable 3 lasts 60 exclusive all_fenced no_owner s /\ fence s 1 <> None /\
    decides 3 lasts s 2 2 (seq 0 3)) /\
  (exists s, reachable 3 lasts 60 exclusive all_fenced no_owner s /\ fence s 1 <> None /\
    alive s 2 /\ fence s 2 = Some 2 /\ ~ retired s 2 /\ ~ late s 1).
Proof.
  destruct (attempts_hold_together 3 ltac:(lia) lasts 60 exclusive all_fenced no_owner [1])
    as (s & R & T & O & U & F & Y & A & B & V & G & K & M).
  { repeat constructor; auto. } { unfold lasts. intros. lia. } { unfold exclusive. simpl. intuition congruence. }
  pose proof (Next _ _ _ _ _ _ _ _ R (Finish _ _ _ _ _ _ s 1)) as R1.
  pose proof (fun D => Next _ _ _ _ _ _ _ _ R1 (Release _ _ _ _ _ _ _ 0 1 D)) as R2. simpl in R2.
  specialize (R2 (or_intror eq_refl)).
  pose proof (fun D => Next _ _ _ _ _ _ _ _ R2 (Release _ _ _ _ _ _ _ 1 1 D)) as R3. simpl in R3.
  specialize (R3 (or_intror eq_refl)).
  pose proof (fun D => Next _ _ _ _ _ _ _ _ R3 (Release _ _ _ _ _ _ _ 2 1 D)) as R4. simpl in R4.
  specialize (R4 (or_intror eq_refl)).
  clear R1 R2 R3. match type of R4 with Model.reachable _ _ _ _ _ _ ?x => set (s4 := x) in * end.
  assert (free : forall i a, ~ vote s4 i a).
  { intros i a X. unfold s4, update2 in X. simpl in X.
    destruct (Nat.eqb_spec i 2); destruct (Nat.eqb_spec i 1); destruct (Nat.eqb_spec i 0); destruct (Nat.eqb_spec a 1);
      try lia; try contradiction; apply V in X; simpl in X; intuition lia. }
  assert (Z : ready exclusive no_owner s4 2).
  { repeat split; auto.
    - intros i o E. discriminate.
    - intros i b X. destruct (free i b X).
    - unfold s4. simpl. intros [X|X]; [exact (U 2 X)|discriminate].
    - apply B. simpl. intuition discriminate. }
  destruct (a_ready_attempt_wins 3 ltac:(lia) lasts 60 exclusive all_fenced no_owner s4 2 2 Z)
    as [(s5 & R5 & E5 & D5 & _) (s6 & R6 & _ & _ & _ & _ & E6 & A6 & F6 & _ & G6 & _ & _ & _ & M6 & _)].
  { intros i. pose proof (K i). unfold s4. simpl in *. lia. } { unfold lasts. lia. }
  destruct (A 1) as [_ F1]; [simpl; auto|].
  split.
  - exists s5. split; [exact (later_is_reachable _ _ _ _ _ _ _ _ _ R4 R5)|].
    destruct E5 as (_ & _ & _ & E5 & _). rewrite E5. auto.
  - exists s6. split; [exact (later_is_reachable _ _ _ _ _ _ _ _ _ R4 R6)|].
    rewrite G6; [|discriminate]. rewrite E6. repeat split; auto; [exact (Y 2)|].
    intros X. destruct (M6 1 X) as [X'|X']; [exact (M 1 X')|exact (Y 1 X')].
Qed.

(* A reentrant lock. Attempts 2 and 4 have owner 2, and all other attempts have owner 1. *)
Definition owners (a : attempt) : nat := match a with 2 | 4 => 2 | _ => 1 end.
Definition whose (a : attempt) : option nat := Some (owners a).
Local Notation can_reach := (reachable 3 lasts 60 (reentrant owners) all_fenced whose).
Local Notation leads := (leads 3 lasts 60 (reentrant owners) all_fenced whose).

(* All three nodes retire owner 1, whose attempts have all votes. *)
Lemma all_nodes_retire :
  forall s, can_reach s -> now s = 0 -> (forall i o, refused s i o = 0) -> (forall a, ~ retired s a) ->
  (forall i a, vote s i a -> owners a = 1 /\ i < 3) ->
  exists s', can_reach s' /\ now s' = 0 /\ counter s' = counter s /\ outside s' = outside s /\ done s' = done s /\
    fence s' = fence s /\ alive s' = alive s /\ asked s' = asked s /\ granted s' = granted s /\
    (forall i, i < 3 -> refused s' i 1 = 100) /\ (forall i o, o <> 1 -> refused s' i o = 0) /\
    (forall i a, ~ vote s' i a) /\ (forall a, retired s' a -> owners a = 1) /\
    (forall i a, vote s i a -> retired s' a).
Proof.
  intros s R T F Y V.
  pose proof (Next _ _ _ _ _ _ _ _ R (Retire _ _ _ _ _ _ _ 0 1 100)) as R1.
  pose proof (Next _ _ _ _ _ _ _ _ R1 (Retire _ _ _ _ _ _ _ 1 1 100)) as R2.
  pose proof (Next _ _ _ _ _ _ _ _ R2 (Retire _ _ _ _ _ _ _ 2 1 100)) as R3.
  eexists. split; [exact R3|]. clear R1 R2 R3. unfold whose. simpl. repeat split; auto.
  - intros i H. unfold update2. simpl. rewrite T, !F. destruct i as [|[|[|i]]]; simpl; lia.
  - intros i o H. unfold update2. simpl. rewrite !F.
    destruct (Nat.eqb_spec o 1); [contradiction|]. destruct (i =? 2); destruct (i =? 1); destruct (i =? 0); auto.
  - intros i a (((X & X0) & X1) & X2). destruct (V i a X) as [E H].
    destruct i as [|[|[|i]]]; [apply X0|apply X1|apply X2|lia]; rewrite E; auto.
  - intros a [[[X|[_ X]]|[_ X]]|[_ X]]; [destruct (Y a X)| | |]; congruence.
  - intros i a X. destruct (V i a X) as [E H]. destruct i as [|[|[|i]]]; [| | |lia]; rewrite E.
    + left; left; right. auto.
    + left; right. repeat split; auto. intros [D _]; discriminate.
    + right. repeat split; auto; intros [D _]; discriminate.
Qed.

(* Retire.v: attempt 1 holds, and a request of attempt 3 is under way, when all nodes retire their owner. Attempt 2 then wins
   while attempt 1 still holds: mutual_exclusion needs its exception. When the lease of attempt 1 could have ended, the
   nodes still refuse the owner, and attempt 4 enters. *)
Theorem a_retired_holder_may_overlap :
  exists s s', can_reach s /\ majority 3 (seq 0 3) /\
    all_refuse_for_long 60 (seq 0 3) 1 s /\ asked s 0 3 0 0 /\ (forall i, ~ live lasts s i 3) /\
    holds 3 lasts s 1 /\ holds 3 lasts s 2 /\ retired s 1 /\ ~ retired s 2 /\ reentrant owners 1 2 /\
    leads (all_refuse (seq 0 3) 1) s s' /\ now s + 60 <= now s' /\ (forall a, retired s' a -> owners a = 1) /\
    holds 3 lasts s' 4.
Proof.
  destruct (attempts_hold_together 3 ltac:(lia) lasts 60 (reentrant owners) all_fenced whose [1])
    as (s & R & T & O & U & F & Y & A & B & V & G & K & M).
  { repeat constructor; auto. } { unfold lasts. intros. lia. } { unfold reentrant. simpl. intuition congruence. }
  pose proof (Next _ _ _ _ _ _ _ _ R (Ask _ _ _ _ _ _ s 0 3 0 (U 3))) as R1.
  destruct (all_nodes_retire _ R1 T F Y) as (s4 & R4 & E0 & E1 & E2 & E3 & E4 & E5 & E6 & E7 & W & W' & free & one & back).
  { intros i a X. apply V in X. destruct X as [[<-|[]] X]. auto. }
  simpl in *.
  assert (R1' : retired s4 1).
  { destruct (A 1 (or_introl eq_refl)) as [A1 _].
    destruct (alive_holds _ _ _ _ _ _ s R 1 A1) as (_ & _ & Q & (_ & _ & size) & voted).
    destruct Q as [|i Q]; [simpl in size; lia|]. specialize (voted i (or_introl eq_refl)). apply (back i).
    pose proof (invariant_holds 3 lasts 60 lasts_is_bounded (reentrant owners) (reentrant_symmetric owners)
      (reentrant_irreflexive owners) all_fenced whose s R) as I.
    apply (promised_is_voted _ _ _ _ _ _ s I i 1 (live_is_promised _ _ _ _ _ _ s I i 1 voted)); [|apply O].
    intros [D|D]; [exact (U 1 D)|exact (Y 1 D)]. }
  assert (Z : forall x a, owners a = 2 -> outside x = outside s4 -> done x = done s4 ->
    (forall i o, o <> 1 -> refused x i o = 0) -> (forall i b, vote x i b -> owners b = 2 /\ b <> a) -> fence x a = None ->
    ready (reentrant owners) whose x a).
  { intros x a E X1 X2 X3 X4 X5. repeat split; auto.
    - intros i. rewrite X1, E2. apply O.
    - intros i o E'. unfold whose in E'. rewrite E in E'. injection E' as <-. unfold refuses. rewrite X3; [lia|discriminate].
    - intros i X. apply X4 in X. tauto.
    - intros i b X. apply X4 in X. unfold reentrant. destruct X. congruence.
    - rewrite X2, E3. apply U. }
  destruct (a_ready_attempt_wins 3 ltac:(lia) lasts 60 (reentrant owners) all_fenced whose s4 2 2)
    as [_ (s6 & L6 & N6 & O6 & D6 & W6 & Y6 & A6 & F6 & K6 & G6 & V6 & H6 & C6 & M6 & Q6 & _)].
  { apply Z; auto; [|rewrite E4; apply B; simpl; intuition discriminate].
    intros i b X. destruct (free i b X). }
  { intros i. rewrite E1. pose proof (K i). lia. } { unfold lasts. lia. }
  pose proof (later_is_reachable _ _ _ _ _ _ _ _ _ R4 L6) as R6.
  assert (refuse : forall i, i < 3 -> refused s6 i 1 = 100) by (intros i H; rewrite W6; auto).
  assert (start : all_refuse (seq 0 3) 1 s6) by (intros i X; apply (in_seq 3 0) in X; unfold refuses; rewrite refuse; lia).
  pose proof (On 3 lasts 60 (reentrant owners) all_fenced whose _ s6 s6 _ (Here _ _ _ _ _ _ _ s6 start)
    (Tick 3 lasts 60 (reentrant owners) all_fenced whose s6 60 _ eq_refl)) as L7.
  match type of L7 with _ -> Retire.leads _ _ _ _ _ _ _ _ ?x => set (s7 := x) in * end.
  destruct (a_ready_attempt_wins 3 ltac:(lia) lasts 60 (reentrant owners) all_fenced whose s7 4 3)
    as [_ (s8 & L8 & N8 & _ & _ & W8 & Y8 & A8 & _)].
  { apply Z; auto.
    - intros i o H. unfold s7. simpl. rewrite W6. auto.
    - intros i b X. destruct (V6 i b X) as [X'|[-> _]]; [destruct (free i b X')|]. auto.
    - unfold s7. simpl. rewrite G6, E4; [|discriminate]. apply B. simpl. intuition discriminate. }
  { intros i. pose proof (C6 i). unfold s7. simpl. lia. } { unfold lasts. lia. }
  assert (long : forall x, at_once s7 x -> all_refuse (seq 0 3) 1 x).
  { intros x [X1 X2] i X. apply (in_seq 3 0) in X. unfold refuses. rewrite X1, X2. unfold s7. simpl. rewrite refuse; lia. }
  specialize (L7 (long s7 (conj eq_refl eq_refl))). pose proof (leads_further _ _ _ _ _ _ _ _ _ _ _ L7 L8 long) as L.
  exists s6, s8. split; [exact R6|]. split; [apply all_nodes_are_a_majority; lia|].
  split; [intros i X; apply (in_seq 3 0) in X; rewrite refuse; lia|].
  split; [apply Q6; rewrite E6; right; rewrite T; auto|].
  split; [intros i (x & w & X & _); apply H6 in X; destruct X as [X|X]; [|discriminate];
    rewrite E7 in X; apply G in X; simpl in X; intuition discriminate|].
  split; [eapply alive_holds; [exact R6|apply K6; rewrite E5; apply A; simpl; auto]|].
  split; [eapply alive_holds; [exact R6|exact A6]|]. split; [rewrite Y6; exact R1'|].
  split; [rewrite Y6; intros X; apply one in X; discriminate|].
  split; [unfold reentrant; simpl; discriminate|]. split; [exact L|].
  split; [rewrite N8; unfold s7; simpl; lia|].
  split; [rewrite Y8; unfold s7; simpl; rewrite Y6; exact one|].
  eapply alive_holds; [exact (later_is_reachable _ _ _ _ _ _ _ _ _ R6 L)|exact A8].
Qed.

(* Lease.v: attempt 1 has grants, but has not decided, when all nodes retire its owner. Attempt 2 wins. Attempt 1 may then
   still decide, with a lower fence: fences_increase needs its exception, too. *)
Theorem a_retired_attempt_may_decide_late :
  exists s, can_reach s /\ retired s 1 /\ fence s 2 = Some 2 /\ alive s 2 /\ reentrant owners 1 2 /\
    decides 3 lasts s 1 1 (seq 0 3).
Proof.
  destruct (a_ready_attempt_wins 3 ltac:(lia) lasts 60 (reentrant owners) all_fenced whose blank 1 1)
    as [(s & L & (E0 & E1 & E2 & E3 & E4 & E5 & E6 & E7 & E8) & (_ & _ & _ & dec) & V & G & C) _].
  { unfold ready, blank, admits, refuses. simpl. repeat split; auto; intros; lia. } { simpl. lia. } { unfold lasts. lia. }
  pose proof (later_is_reachable _ _ _ _ _ _ _ _ _ (blank_is_reachable _ _ _ _ _ _) L) as R.
  pose proof (invariant_holds 3 lasts 60 lasts_is_bounded (reentrant owners) (reentrant_symmetric owners)
      (reentrant_irreflexive owners) all_fenced whose s R) as I.
  assert (v : vote s 0 1).
  { apply (promised_is_voted _ _ _ _ _ _ s I 0 1).
    - apply live_is_promised with (1 := I). exists 0, 1. split; [apply G; lia|rewrite E0; unfold lasts; simpl; lia].
    - unfold over. rewrite E2, E7. simpl. tauto.
    - rewrite E1. auto. }
  destruct (all_nodes_retire s R) as (s4 & R4 & T0 & T1 & T2 & T3 & T4 & T5 & T6 & T7 & W & W' & free & one & back).
  { rewrite E0. auto. } { rewrite E6. auto. } { rewrite E7. auto. }
  { intros i a X. destruct (V i a X) as [[]|[-> X']]. auto. }
  destruct (a_ready_attempt_wins 3 ltac:(lia) lasts 60 (reentrant owners) all_fenced whose s4 2 2)
    as [_ (s6 & L6 & N6 & O6 & D6 & W6 & Y6 & A6 & F6 & K6 & G6 & V6 & H6 & C6 & M6 & Q6 & P6)].
  { repeat split.
    - intros i. rewrite T2, E1. auto.
    - intros i o E. injection E as <-. unfold refuses. rewrite W'; [lia|discriminate].
    - intros i. exact (free i 2).
    - intros i b X. destruct (free i b X).
    - rewrite T3, E2. simpl. tauto.
    - rewrite T4, E3. reflexivity. }
  { intros i. rewrite T1. pose proof (C i). lia. } { unfold lasts. lia. }
  exists s6. split; [exact (later_is_reachable _ _ _ _ _ _ _ _ _ R4 L6)|].
  split; [rewrite Y6; apply (back 0); exact v|]. split; [exact F6|]. split; [exact A6|].
  split; [unfold reentrant; simpl; discriminate|].
  split; [rewrite D6, T3, E2; simpl; tauto|]. split; [rewrite G6, T4, E3; [reflexivity|discriminate]|].
  split; [apply all_nodes_are_a_majority; lia|].
  intros i X. apply in_seq in X. exists 0. split; [|rewrite N6, T0; unfold lasts; lia].
  apply P6. rewrite T7. apply G. lia.
Qed.

(* Fence.v: two attempts of an exclusive lock decide one after the other, and both votes are in the log of a node. *)
Theorem two_fences_without_clocks_are_reachable :
  exists s P, Fence.reachable 3 exclusive all_fenced s /\
    Fence.decided s 1 = Some (1, P) /\ Fence.decided s 2 = Some (2, P) /\ Fence.log s 0 = [(2, 2)] ++ (1, 1) :: nil.
Proof.
  assert (Q : majority 3 [0; 1]).
  { split; [repeat constructor; simpl; intuition discriminate|split; [simpl; intuition lia|simpl; lia]]. }
  set (s0 := Fence.mk (fun _ _ => False) (fun _ => 0) (fun _ => nil) (fun _ => None)).
  assert (R0 : Fence.reachable 3 exclusive all_fenced s0) by (apply Fence.Start; repeat split; auto).
  pose proof (fun X Y => Fence.Next _ _ _ _ _ R0 (Fence.Fresh _ _ _ _ 0 1 1 X Y)) as R1. simpl in R1.
  specialize (R1 ltac:(contradiction) ltac:(lia)).
  pose proof (fun X Y => Fence.Next _ _ _ _ _ R1 (Fence.Fresh _ _ _ _ 1 1 1 X Y)) as R2. simpl in R2.
  specialize (R2 ltac:(unfold Fence.update2; simpl; contradiction)
    ltac:(intros; unfold Fence.update; simpl; lia)).
  pose proof (fun D X => Fence.Next _ _ _ _ _ R2 (Fence.Decide _ _ _ _ 1 1 [0; 1] D Q X)) as R3. simpl in R3.
  specialize (R3 eq_refl ltac:(intros i [<-|[<-|[]]]; simpl; auto)).
  pose proof (Fence.Next _ _ _ _ _ R3 (Fence.Vanish _ _ _ _ 0 1)) as R4.
  pose proof (Fence.Next _ _ _ _ _ R4 (Fence.Vanish _ _ _ _ 1 1)) as R5. simpl in R5.
  pose proof (fun X Y => Fence.Next _ _ _ _ _ R5 (Fence.Fresh _ _ _ _ 0 2 2 X Y)) as R6. simpl in R6.
  specialize (R6 ltac:(intros [|[|b]]; unfold Fence.update2; simpl; contradiction)
    ltac:(intros; unfold Fence.update; simpl; lia)).
  pose proof (fun X Y => Fence.Next _ _ _ _ _ R6 (Fence.Fresh _ _ _ _ 1 2 2 X Y)) as R7. simpl in R7.
  specialize (R7 ltac:(intros [|[|b]]; unfold Fence.update2; simpl; contradiction)
    ltac:(intros; unfold Fence.update; simpl; lia)).
  pose proof (fun D X => Fence.Next _ _ _ _ _ R7 (Fence.Decide _ _ _ _ 2 2 [0; 1] D Q X)) as R8. simpl in R8.
  specialize (R8 eq_refl ltac:(intros i [<-|[<-|[]]]; simpl; auto)).
  eexists. exists [0; 1]. split; [exact R8|]. repeat split; reflexivity.
Qed.

(* Validity.v: a client whose clock shows real time holds a lease with a ttl of 30. It subtracts a drift of 4. The clocks of
   nodes are fast by up to a 27th, and count with a resolution of 2. The clock of the client may be slow by a 28th. Every
   hypothesis about what the client computes is true. *)
Theorem a_client_can_compute_a_validity :
  let (n, c) := (1 # 27, 1 # 28)%Q in
  (0 <= n /\ 0 <= c /\ c < 1 /\
    (9 # 10) * (1 + n) <= 1 - c /\
    inject_Z (Z.of_nat (30 - 4)) * (1 + n) <= (inject_Z (Z.of_nat 30) - 2) * (1 - c) /\
    inject_Z (Z.of_nat (lasts 1%nat)) * (1 + n) == inject_Z (Z.of_nat 30) - 2 /\
    (forall x y : nat, (x <= y)%nat -> (x <= y)%nat /\
      inject_Z (Z.of_nat (y - x)) * (1 - c) <= inject_Z (Z.of_nat (y - x))))%Q /\
  exists s sends, reachable 3 lasts 60 exclusive all_fenced no_owner s /\
    3 < 2 * 2 /\ 2 <= length sends /\ NoDup (map fst sends) /\
    (forall i x, In (i, x) sends -> i < 3 /\ exists w, granted s i 1 x w) /\
    now s < Validity.mth_largest 2 (map (fun p => snd p + (30 - 4)) sends).
Proof.
  split.
  - repeat split; simpl; try (unfold Qle, Qlt, Qeq; simpl; lia); auto.
  - destruct (nodes_grant 3 ltac:(lia) lasts 60 exclusive all_fenced no_owner blank 1 1) with (n := 3)
        as (s & R & (T & _) & G & _).
    + unfold ready, blank, admits, refuses. simpl. repeat split; auto; intros; lia.
    + simpl. lia.
    + exists s, [(0, 0); (1, 0); (2, 0)].
      split; [exact (later_is_reachable _ _ _ _ _ _ _ _ _ (blank_is_reachable _ _ _ _ _ _) R)|].
      split; [lia|]. split; [simpl; lia|].
      split; [repeat constructor; simpl; intuition discriminate|]. split; [|rewrite T; vm_compute; lia].
      intros i x [E|[E|[E|[]]]]; injection E as <- <-; (split; [lia|]); exists 1; apply G; lia.
Qed.
