(* How a client computes the values that Model.v assumes: how long a node surely keeps a vote, and until when a majority
   of the nodes keeps the votes of an attempt.

   Time that a clock does not count (a paused machine) is not modelled. The code is crates/core/src/validity.rs and time.rs.
   README.md maps each definition to the code. *)

Require Import Arith Lia List Bool Permutation QArith Lqa.
Require Import Majority Lease.
Import ListNotations.
Open Scope nat_scope.

(* ------------------------------------------------------------------------------ the m-th largest of many moments *)

(* Inserts x into a list in descending order. *)
Fixpoint insert (x : nat) (l : list nat) : list nat :=
  match l with
  | [] => [x]
  | y :: t => if y <=? x then x :: l else y :: insert x t
  end.
(* The list, sorted in descending order. *)
Fixpoint descending (l : list nat) : list nat :=
  match l with
  | [] => []
  | x :: t => insert x (descending t)
  end.

(* The m-th largest member, counted from 1. The value is 0 if the list has fewer members. *)
Definition mth_largest (m : nat) (l : list nat) : nat := nth (m - 1) (descending l) 0.

(* The list with x inserted is a permutation of x and the list. *)
Lemma insert_permutes : forall x l, Permutation (x :: l) (insert x l).
Proof.
  induction l as [|y t IH]; simpl; auto. destruct (y <=? x); auto.
  eapply perm_trans; [apply perm_swap|]. apply perm_skip. exact IH.
Qed.

(* The sorted list is a permutation of the list. *)
Lemma descending_permutes : forall l, Permutation l (descending l).
Proof.
  induction l as [|x t IH]; simpl; auto. eapply perm_trans; [apply perm_skip; exact IH|]. apply insert_permutes.
Qed.

(* A list is in descending order: no member is smaller than a later member. *)
Definition falls (l : list nat) : Prop := forall i j, i <= j -> j < length l -> nth j l 0 <= nth i l 0.

(* An insertion keeps the descending order. *)
Lemma insert_falls : forall x l, falls l -> falls (insert x l).
Proof.
  intros x l. induction l as [|y t IH]; intros F; simpl.
  - intros i j A B. simpl in B. assert (j = 0) by lia. assert (i = 0) by lia. subst. auto.
  - assert (Ft : falls t).
    { intros i j A B. apply (F (S i) (S j)); simpl; lia. }
    assert (top : forall j, j < length t -> nth j t 0 <= y).
    { intros j B. apply (F 0 (S j)); simpl; lia. }
    destruct (Nat.leb_spec y x) as [L|L].
    + intros i j A B. destruct i; destruct j; simpl in *; try lia.
      * destruct j; [lia|]. pose proof (top j). lia.
      * destruct i; destruct j; try lia; [apply top; lia|]. apply Ft; lia.
    + assert (bounded : forall j, j < length (insert x t) -> nth j (insert x t) 0 <= y).
      { intros j B. pose proof (nth_In (insert x t) 0 B) as X.
        apply (Permutation_in _ (Permutation_sym (insert_permutes x t))) in X.
        destruct X as [X|X]; [lia|]. apply In_nth with (d := 0) in X. destruct X as (k & K & E). rewrite <- E. auto. }
      intros i j A B. destruct i; destruct j; simpl in *; try lia; [apply bounded; lia|]. apply IH; auto; lia.
Qed.

(* The sorted list is in descending order. *)
Lemma descending_falls : forall l, falls (descending l).
Proof.
  induction l as [|x t IH]; simpl; [intros i j A B; simpl in B; lia|]. apply insert_falls. exact IH.
Qed.

(* The number of moments after t. *)
Definition count_above (t : nat) (l : list nat) : nat := length (filter (fun x => t <? x) l).

(* The number of moments after t does not depend on the order of the list. *)
Lemma count_permutes : forall t l k, Permutation l k -> count_above t l = count_above t k.
Proof.
  unfold count_above. induction 1; simpl; auto; repeat (destruct (t <? _); simpl); auto; congruence.
Qed.

(* If the first m moments are after t, at least m moments are after t. *)
Lemma count_of_the_first :
  forall t m l, (forall i, i < m -> t < nth i l 0) -> m <= length l -> m <= count_above t l.
Proof.
  unfold count_above. induction m as [|m IH]; intros l H L; [lia|]. destruct l as [|x l]; simpl in L; [lia|].
  simpl. pose proof (H 0 ltac:(lia)) as X. simpl in X. destruct (Nat.ltb_spec t x); [|lia]. simpl.
  assert (m <= length (filter (fun y => t <? y) l)); [|lia].
  apply IH; [|lia]. intros i I. apply (H (S i)). lia.
Qed.

(* If t is before the m-th largest moment, at least m moments are after t. *)
Lemma mth_largest_counts :
  forall m l t, 0 < m -> m <= length l -> t < mth_largest m l -> m <= count_above t l.
Proof.
  intros m l t M L H. rewrite (count_permutes t l (descending l) (descending_permutes l)).
  assert (E : length (descending l) = length l) by (symmetry; apply Permutation_length, descending_permutes).
  apply count_of_the_first; [|lia]. intros i I. unfold mth_largest in H.
  pose proof (descending_falls l i (m - 1)). lia.
Qed.

(* The rule of extension. [ends] has one moment for each node that acknowledged a request: the send moment of the newest
   acknowledged request, plus the length of the vote. Before the m-th largest of these moments, a majority of the nodes
   surely keeps its votes. A node that acknowledged several requests still counts once, because it has one moment. *)
Theorem extension_rule :
  forall N m (ends : list (node * nat)) now, N < 2 * m -> m <= length ends -> NoDup (map fst ends) ->
  (forall i e, In (i, e) ends -> i < N) -> now < mth_largest m (map snd ends) ->
  exists Q, majority N Q /\ forall i, In i Q -> exists e, In (i, e) ends /\ now < e.
Proof.
  intros N m ends now M L D B H. exists (map fst (filter (fun p => now <? snd p) ends)).
  assert (size : m <= length (filter (fun p => now <? snd p) ends)).
  { pose proof (mth_largest_counts m (map snd ends) now ltac:(lia)) as X. rewrite map_length in X.
    specialize (X L H). unfold count_above in X. clear - X. revert m X.
    induction ends as [|[i e] t IH]; simpl; intros m X; auto.
    destruct (now <? e); simpl in *; [|apply IH; exact X]. destruct m; [lia|].
    assert (m <= length (filter (fun p => now <? snd p) t)); [|lia]. apply IH. lia. }
  split.
  - split; [|split].
    + clear - D. induction ends as [|[i e] t IH]; simpl in *; [constructor|]. inversion D; subst.
      destruct (now <? e); simpl; auto. constructor; auto. intros X. apply H1. apply in_map_iff in X.
      destruct X as (p & E & X). apply filter_In in X. destruct X as [X _]. apply in_map_iff. exists p. auto.
    + intros i X. apply in_map_iff in X. destruct X as ([j e] & E & X). simpl in E. subst.
      apply filter_In in X. destruct X as [X _]. eauto.
    + rewrite map_length. lia.
  - intros i X. apply in_map_iff in X. destruct X as ([j e] & E & X). simpl in E. subst.
    apply filter_In in X. destruct X as [X T]. exists e. split; auto. apply Nat.ltb_lt. exact T.
Qed.

(* ------------------------------------------------------------------------------------------------ the drift margin *)

Open Scope Q_scope.

(* A node's clock is fast by at most the factor [n], and a client's clock is slow by at most the factor [c]. A node keeps a
   vote until its own clock has counted T minus the resolution q of its timer. The client stops when its own clock has
   counted T - d since the send. If (T - d)(1 + n) <= (T - q)(1 - c), the client stops in real time before the vote may
   expire. *)
Theorem drift_margin :
  forall T q d n c real : Q, 0 <= n -> 0 <= c -> c < 1 ->
  (T - d) * (1 + n) <= (T - q) * (1 - c) ->
  real * (1 - c) <= T - d ->                         (* what the client's clock has counted *)
  real * (1 + n) <= T - q.                           (* what the node's clock can have counted *)
Proof.
  intros T q d n c real Hn Hc Hc' rule counted.
  assert (A : (real * (1 - c)) * (1 + n) <= (T - d) * (1 + n)) by (apply Qmult_le_compat_r; lra).
  assert (B : (real * (1 + n)) * (1 - c) <= (T - q) * (1 - c)) by lra.
  apply Qmult_le_r with (z := 1 - c); lra.
Qed.

(* The default drift is a tenth of the ttl plus 2 ms. This covers a timer with a resolution of 2 ms, and clocks whose rates
   together differ by at most a tenth. For comparison, chrony slews a clock by at most a twelfth. *)
Theorem default_drift_is_enough :
  forall T n c : Q, 0 <= T -> 0 <= n -> 0 <= c -> (9 # 10) * (1 + n) <= 1 - c ->
  (T - (T * (1 # 10) + 2)) * (1 + n) <= (T - 2) * (1 - c).
Proof.
  intros T n c HT Hn Hc H.
  assert (X : T * ((9 # 10) * (1 + n)) <= T * (1 - c)).
  { rewrite (Qmult_comm T (1 - c)), (Qmult_comm T ((9 # 10) * (1 + n))). apply Qmult_le_compat_r; lra. }
  lra.
Qed.

(* ----------------------------------------------------------------------------------------- what a client computes *)

(* The rule of extension and the drift margin together. A client holds until its own clock reaches the m-th largest of its
   send moments, plus the ttl, minus the drift. Until then the client is [backed], as Model.v defines it. [clock] gives the
   reading of the client's clock at each moment of real time. [sends] has, for each node, the real moment of the newest
   request that the node acknowledged. [len a] is the real time in which a clock that is fast by the factor [n] counts
   T - q. For that long a node surely keeps the vote. *)
Theorem what_a_client_computes_is_backed :
  forall N len (s : state) a (clock : nat -> nat) (T d m : nat) (q n c : Q) (sends : list (node * nat)),
  0 <= n -> 0 <= c -> c < 1 ->
  (inject_Z (Z.of_nat (T - d))) * (1 + n) <= (inject_Z (Z.of_nat T) - q) * (1 - c) ->
  inject_Z (Z.of_nat (len a)) * (1 + n) == inject_Z (Z.of_nat T) - q ->
  (forall x y, (x <= y)%nat -> (clock x <= clock y)%nat /\
     inject_Z (Z.of_nat (y - x)) * (1 - c) <= inject_Z (Z.of_nat (clock y - clock x))) ->
  (N < 2 * m)%nat -> (m <= length sends)%nat -> NoDup (map fst sends) ->
  (forall i x, In (i, x) sends -> (i < N)%nat /\ exists w, granted s i a x w) ->
  (clock (now s) < mth_largest m (map (fun p => clock (snd p) + (T - d)) sends))%nat ->
  backed N len s a.
Proof.
  intros N len s a clock T d m q n c sends Hn Hc Hc' rule length_of_vote rate M L D G H.
  set (ends := map (fun p => (fst p, (clock (snd p) + (T - d))%nat)) sends).
  destruct (extension_rule N m ends (clock (now s))) as (P & majority_P & standing); auto.
  - unfold ends. rewrite map_length. exact L.
  - unfold ends. rewrite map_map. simpl. exact D.
  - intros i e X. unfold ends in X. apply in_map_iff in X. destruct X as ([j x] & E & X). injection E as <- _.
    apply (G j x X).
  - unfold ends. rewrite map_map. simpl. exact H.
  - exists P. split; auto. intros i X. destruct (standing i X) as (e & Y & before).
    unfold ends in Y. apply in_map_iff in Y. destruct Y as ([j x] & E & Y). simpl in E. injection E as -> <-.
    destruct (G i x Y) as (_ & w & granted_w). exists x, w. split; auto.
    destruct (Nat.le_gt_cases x (now s)) as [past|future]; [|lia].
    destruct (rate x (now s) past) as [forward counted].
    assert (short : inject_Z (Z.of_nat (clock (now s) - clock x)) < inject_Z (Z.of_nat (T - d))) by (rewrite <- Zlt_Qlt; lia).
    set (real := inject_Z (Z.of_nat (now s - x))) in *.
    assert (A : (real * (1 - c)) * (1 + n) < inject_Z (Z.of_nat (T - d)) * (1 + n)) by (apply Qmult_lt_compat_r; lra).
    assert (B : (real * (1 + n)) * (1 - c) < (inject_Z (Z.of_nat (len a)) * (1 + n)) * (1 - c)).
    { rewrite length_of_vote. lra. }
    assert (C : real * (1 + n) < inject_Z (Z.of_nat (len a)) * (1 + n)) by (apply Qmult_lt_r with (z := 1 - c); lra).
    assert (R : real < inject_Z (Z.of_nat (len a))) by (apply Qmult_lt_r with (z := 1 + n); lra).
    unfold real in R. rewrite <- Zlt_Qlt in R. lia.
Qed.
