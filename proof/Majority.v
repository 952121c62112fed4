(* Majorities of nodes: any two majorities of the same N nodes have a node in common. All theorems rely on this fact.

   The N nodes are one generation. A majority of one generation and a majority of the next need not have a node in common;
   the proof says nothing about that case. The code is crates/core/src/terms.rs. *)

Require Import Arith Lia List.

(* A node is identified by its position in the configuration. *)
Definition node := nat.

(* More than half of N nodes, each counted once. *)
Definition majority (N : nat) (Q : list node) : Prop :=
  NoDup Q /\ (forall i, In i Q -> i < N) /\ N < 2 * length Q.

(* If two lists have no repetitions and no common member, the joined list has no repetitions. *)
Lemma disjoint_lists_join :
  forall P Q : list node, NoDup P -> NoDup Q -> (forall i, In i P -> ~ In i Q) -> NoDup (P ++ Q).
Proof.
  induction P as [|p P IH]; intros Q HP HQ apart; simpl; [assumption|].
  inversion HP; subst. constructor.
  - rewrite in_app_iff. intros [H|H]; [contradiction|]. exact (apart p (or_introl eq_refl) H).
  - apply IH; auto. intros i H. apply apart. right. exact H.
Qed.

(* Any two majorities of the same nodes have a node in common. *)
Lemma majorities_meet :
  forall N P Q, majority N P -> majority N Q -> exists i, In i P /\ In i Q.
Proof.
  intros N P Q (distinct_P & bound_P & size_P) (distinct_Q & bound_Q & size_Q).
  destruct (Exists_dec (fun i => In i Q) P (fun i => in_dec Nat.eq_dec i Q)) as [meet|apart].
  - apply Exists_exists in meet. exact meet.
  - exfalso.
    assert (disjoint : forall i, In i P -> ~ In i Q).
    { intros i in_P in_Q. apply apart. apply Exists_exists. exists i. auto. }
    assert (inside : incl (P ++ Q) (seq 0 N)).
    { intros i H. apply in_app_iff in H. apply in_seq. destruct H as [H|H]; [apply bound_P in H|apply bound_Q in H]; lia. }
    pose proof (NoDup_incl_length (disjoint_lists_join P Q distinct_P distinct_Q disjoint) inside) as size.
    rewrite app_length, seq_length in size. lia.
Qed.

(* If there are nodes, they have a majority of the size that the code uses. *)
Theorem a_majority_exists :
  forall N, 0 < N -> majority N (seq 0 (N / 2 + 1)).
Proof.
  intros N some. pose proof (Nat.div_mod N 2 ltac:(lia)) as D. pose proof (Nat.mod_upper_bound N 2 ltac:(lia)) as U.
  split; [apply seq_NoDup|split]; [|rewrite seq_length; lia]. intros i H. apply in_seq in H. lia.
Qed.
