(* Each kind of lock is a conflict relation between attempts. This file applies the theorems of Lease.v, which hold for any
   such relation, to each kind.

   exclusive   crates/core/src/terms.rs, Mode::Exclusive: all attempts conflict
   shared      Mode::Shared, and Mode::Exclusive for the writer: two readers do not conflict
   reentrant   Mode::Reentrant: entries of one owner do not conflict. Only the first entry has a new fence
   slots       Mode::Slot: only attempts for the same slot conflict. An attempt is an attempt for one slot. A client to
               which different nodes granted different slots has not won a slot (acquire/settle.rs) *)

Require Import Arith Lia List.
Require Import Majority Lease.

Definition exclusive (a b : attempt) : Prop := a <> b.
Definition shared (writes : attempt -> Prop) (a b : attempt) : Prop := a <> b /\ (writes a \/ writes b).
Definition reentrant (owner : attempt -> nat) (a b : attempt) : Prop := owner a <> owner b.
Definition slots (slot : attempt -> nat) (a b : attempt) : Prop := a <> b /\ slot a = slot b.

(* Each relation is symmetric and irreflexive, as Lease.v requires. *)
Lemma exclusive_symmetric : forall a b, exclusive a b -> exclusive b a.
Proof. unfold exclusive. auto. Qed.
Lemma exclusive_irreflexive : forall a, ~ exclusive a a.
Proof. unfold exclusive. auto. Qed.
Lemma shared_symmetric : forall w a b, shared w a b -> shared w b a.
Proof. unfold shared. intuition. Qed.
Lemma shared_irreflexive : forall w a, ~ shared w a a.
Proof. unfold shared. intuition. Qed.
Lemma reentrant_symmetric : forall o a b, reentrant o a b -> reentrant o b a.
Proof. unfold reentrant. auto. Qed.
Lemma reentrant_irreflexive : forall o a, ~ reentrant o a a.
Proof. unfold reentrant. auto. Qed.
Lemma slots_symmetric : forall f a b, slots f a b -> slots f b a.
Proof. unfold slots. intuition. Qed.
Lemma slots_irreflexive : forall f a, ~ slots f a a.
Proof. unfold slots. intuition. Qed.

Section Kinds.

Variable N : nat.
Variable len : attempt -> nat.
Variable longest : nat.
Hypothesis len_bounded : forall a, len a <= longest.
Variable fenced : attempt -> Prop.                   (* attempts that need a new fence *)

(* An exclusive lock has at most one holder. *)
Theorem exclusive_has_one_holder :
  forall s, reachable N len longest exclusive fenced s -> forall a b, holds N len s a -> holds N len s b -> a = b.
Proof.
  intros s R a b A B. destruct (Nat.eq_dec a b) as [E|E]; auto. exfalso.
  exact (mutual_exclusion N len longest len_bounded exclusive exclusive_symmetric exclusive_irreflexive fenced s R a b A B E).
Qed.

(* Every fence of an exclusive lock is higher than all earlier fences. *)
Theorem exclusive_fences_increase :
  forall s, reachable N len longest exclusive fenced s -> forall a t Q, decides N len s a t Q ->
  fenced a -> forall b u, fence s b = Some u -> u < t.
Proof.
  intros s R a t Q D new b u F. destruct (Nat.eq_dec a b) as [E|E].
  - subst. destruct D as (_ & X & _). congruence.
  - exact (fences_increase N len longest len_bounded exclusive exclusive_symmetric exclusive_irreflexive fenced s R a t Q D new b u F E).
Qed.

(* If two attempts hold a shared lock together, both are readers. *)
Theorem shared_holders_read :
  forall w s, reachable N len longest (shared w) fenced s -> forall a b, a <> b -> holds N len s a -> holds N len s b ->
  ~ w a /\ ~ w b.
Proof.
  intros w s R a b E A B.
  pose proof (mutual_exclusion N len longest len_bounded (shared w) (shared_symmetric w) (shared_irreflexive w) fenced s R a b A B) as X.
  unfold shared in X. tauto.
Qed.

(* A writer's fence is higher than all earlier fences. A reader's fence is higher than the fences of all earlier writers. *)
Theorem shared_fences_increase :
  forall w s, reachable N len longest (shared w) fenced s -> forall a t Q, decides N len s a t Q ->
  fenced a -> forall b u, fence s b = Some u -> (w a \/ w b) -> u < t.
Proof.
  intros w s R a t Q D new b u F W. destruct (Nat.eq_dec a b) as [E|E].
  - subst. destruct D as (_ & X & _). congruence.
  - apply (fences_increase N len longest len_bounded (shared w) (shared_symmetric w) (shared_irreflexive w) fenced s R a t Q D new b u F).
    split; auto.
Qed.

(* All attempts that hold a reentrant lock together have the same owner. *)
Theorem reentrant_has_one_owner :
  forall o s, reachable N len longest (reentrant o) fenced s -> forall a b, holds N len s a -> holds N len s b -> o a = o b.
Proof.
  intros o s R a b A B. destruct (Nat.eq_dec (o a) (o b)) as [E|E]; auto. exfalso.
  exact (mutual_exclusion N len longest len_bounded (reentrant o) (reentrant_symmetric o) (reentrant_irreflexive o) fenced s R a b A B E).
Qed.

(* A semaphore never has more holders than slots. *)
Theorem slots_bound_the_holders :
  forall f k s, (forall a, f a < k) -> reachable N len longest (slots f) fenced s ->
  forall l, NoDup l -> (forall a, In a l -> holds N len s a) -> length l <= k.
Proof.
  intros f k s B R l D H.
  assert (distinct : NoDup (map f l)).
  { induction l as [|a l IH]; simpl; [constructor|]. inversion D; subst. constructor.
    - intros X. apply in_map_iff in X. destruct X as (b & E & In_b).
      assert (a <> b) by (intro; subst; contradiction).
      apply (mutual_exclusion N len longest len_bounded (slots f) (slots_symmetric f) (slots_irreflexive f) fenced s R a b);
        [apply H; simpl; auto|apply H; simpl; auto|split; auto].
    - apply IH; auto. intros b X. apply H. simpl. auto. }
  assert (inside : incl (map f l) (seq 0 k)).
  { intros x X. apply in_map_iff in X. destruct X as (a & E & _). apply in_seq. pose proof (B a). lia. }
  pose proof (NoDup_incl_length distinct inside) as L. rewrite map_length, seq_length in L. exact L.
Qed.

End Kinds.
