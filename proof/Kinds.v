(* Each kind of lock is a conflict relation between attempts. This file applies the theorems of Lease.v, which hold for any
   such relation, to each kind. Like Lease.v, it is about one name and one generation of nodes.

   exclusive   crates/core/src/terms.rs, Mode::Exclusive: all attempts conflict
   shared      Mode::Shared, and Mode::Exclusive for the writer: two readers do not conflict
   reentrant   Mode::Reentrant: entries of one owner do not conflict. Only the first entry has a new fence
   slots       Mode::Slot: only attempts for the same slot conflict. Each attempt is for one slot. If different nodes
               grant a client different slots, the client has not won a slot (acquire/settle.rs)
   mixed       all kinds, used with one name

   Entries of reentrant locks and readers have owners, and an owner may be retired (Retire.v). So only holders of these
   kinds can be retired, and only for these kinds do the theorems of Lease.v have an exception. *)

Require Import Arith Lia List.
Require Import Majority Lease.

Definition exclusive (a b : attempt) : Prop := a <> b.
Definition shared (writes : attempt -> Prop) (a b : attempt) : Prop := a <> b /\ (writes a \/ writes b).
Definition reentrant (owner : attempt -> nat) (a b : attempt) : Prop := owner a <> owner b.
Definition slots (slot : attempt -> nat) (a b : attempt) : Prop := a <> b /\ slot a = slot b.

(* How an attempt wants to hold a lock, and which attempts of one name may hold together. *)
Inductive mode := Exclusive | Reentrant (owner : nat) | Shared (owner : nat) | Slot (permits slot : nat).
Definition joins (x y : mode) : Prop :=
  match x, y with
  | Reentrant o, Reentrant p => o = p
  | Shared _, Shared _ => True
  | Slot m i, Slot n j => m = n /\ i <> j
  | _, _ => False
  end.
Definition mixed (m : attempt -> mode) (a b : attempt) : Prop := a <> b /\ ~ joins (m a) (m b).

(* The owner of an attempt, if it can be retired. *)
Definition owner_of (x : mode) : option nat := match x with Reentrant o | Shared o => Some o | _ => None end.
Definition no_owner (a : attempt) : option nat := None.

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
Lemma joins_symmetric : forall x y, joins x y -> joins y x.
Proof. destruct x, y; simpl; intuition. Qed.
Lemma joins_decidable : forall x y, {joins x y} + {~ joins x y}.
Proof.
  destruct x, y; simpl; auto; [apply Nat.eq_dec|].
  destruct (Nat.eq_dec permits permits0); destruct (Nat.eq_dec slot slot0); intuition.
Qed.
Lemma mixed_symmetric : forall m a b, mixed m a b -> mixed m b a.
Proof. unfold mixed. intros m a b [D J]. split; auto using joins_symmetric. Qed.
Lemma mixed_irreflexive : forall m a, ~ mixed m a a.
Proof. unfold mixed. intuition. Qed.

Section Kinds.

Variable N : nat.
Variable len : attempt -> nat.
Variable longest : nat.
Hypothesis len_bounded : forall a, len a <= longest.
Variable fenced : attempt -> Prop.                   (* attempts that need a new fence *)

Local Notation reachable := (reachable N len longest).
Local Notation holds := (holds N len).
Local Notation decides := (decides N len).

(* If attempts have no owners, no attempt is ever retired. *)
Lemma nobody_is_retired :
  forall conflict : attempt -> attempt -> Prop, (forall a b, conflict a b -> conflict b a) -> (forall a, ~ conflict a a) ->
  forall s, reachable conflict fenced no_owner s -> forall a, ~ retired s a.
Proof.
  intros conflict sym irr s R a X.
  pose proof (invariant_holds N len longest len_bounded conflict sym irr fenced no_owner s R) as I.
  exact (V_owned _ _ _ _ _ _ s I a X eq_refl).
Qed.

(* An exclusive lock has at most one holder. *)
Theorem exclusive_has_one_holder :
  forall s, reachable exclusive fenced no_owner s -> forall a b, holds s a -> holds s b -> a = b.
Proof.
  intros s R a b A B. pose proof (nobody_is_retired _ exclusive_symmetric exclusive_irreflexive s R) as T.
  destruct (Nat.eq_dec a b) as [E|E]; auto. exfalso. revert E.
  apply (mutual_exclusion N len longest len_bounded exclusive exclusive_symmetric exclusive_irreflexive fenced no_owner
    s R a b); auto.
Qed.

(* Every fence of an exclusive lock is higher than all earlier fences. *)
Theorem exclusive_fences_increase :
  forall s, reachable exclusive fenced no_owner s -> forall a t Q, decides s a t Q ->
  fenced a -> forall b u, fence s b = Some u -> u < t.
Proof.
  intros s R a t Q D new b u F. pose proof (nobody_is_retired _ exclusive_symmetric exclusive_irreflexive s R a) as T.
  destruct (Nat.eq_dec a b) as [E|E].
  - subst. destruct D as (_ & X & _). congruence.
  - exact (fences_increase N len longest len_bounded exclusive exclusive_symmetric exclusive_irreflexive fenced no_owner
      s R a t Q D new T b u F E).
Qed.

(* If two attempts hold a shared lock together, both are readers. *)
Theorem shared_holders_read :
  forall w o s, reachable (shared w) fenced o s -> forall a b, a <> b -> holds s a -> holds s b ->
  ~ retired s a -> ~ retired s b -> ~ w a /\ ~ w b.
Proof.
  intros w o s R a b E A B Ta Tb.
  pose proof (mutual_exclusion N len longest len_bounded (shared w) (shared_symmetric w) (shared_irreflexive w) fenced o
    s R a b A B Ta Tb) as X.
  unfold shared in X. tauto.
Qed.

(* A writer's fence is higher than all earlier fences. A reader's fence is higher than the fences of all earlier writers. *)
Theorem shared_fences_increase :
  forall w o s, reachable (shared w) fenced o s -> forall a t Q, decides s a t Q -> fenced a -> ~ retired s a ->
  forall b u, fence s b = Some u -> (w a \/ w b) -> u < t.
Proof.
  intros w o s R a t Q D new T b u F W. destruct (Nat.eq_dec a b) as [E|E].
  - subst. destruct D as (_ & X & _). congruence.
  - apply (fences_increase N len longest len_bounded (shared w) (shared_symmetric w) (shared_irreflexive w) fenced o
      s R a t Q D new T b u F).
    split; auto.
Qed.

(* All attempts that hold a reentrant lock together have the same owner. *)
Theorem reentrant_has_one_owner :
  forall o s, reachable (reentrant o) fenced (fun a => Some (o a)) s -> forall a b, holds s a -> holds s b ->
  ~ retired s a -> ~ retired s b -> o a = o b.
Proof.
  intros o s R a b A B Ta Tb. destruct (Nat.eq_dec (o a) (o b)) as [E|E]; auto. exfalso.
  exact (mutual_exclusion N len longest len_bounded (reentrant o) (reentrant_symmetric o) (reentrant_irreflexive o) fenced _
    s R a b A B Ta Tb E).
Qed.

(* A semaphore never has more holders than slots. *)
Theorem slots_bound_the_holders :
  forall f k s, (forall a, f a < k) -> reachable (slots f) fenced no_owner s ->
  forall l, NoDup l -> (forall a, In a l -> holds s a) -> length l <= k.
Proof.
  intros f k s B R l D H. pose proof (nobody_is_retired _ (slots_symmetric f) (slots_irreflexive f) s R) as T.
  assert (distinct : NoDup (map f l)).
  { induction l as [|a l IH]; simpl; [constructor|]. inversion D; subst. constructor.
    - intros X. apply in_map_iff in X. destruct X as (b & E & In_b).
      assert (a <> b) by (intro; subst; contradiction).
      apply (mutual_exclusion N len longest len_bounded (slots f) (slots_symmetric f) (slots_irreflexive f) fenced no_owner
        s R a b);
        [apply H; simpl; auto|apply H; simpl; auto|auto|auto|split; auto].
    - apply IH; auto. intros b X. apply H. simpl. auto. }
  assert (inside : incl (map f l) (seq 0 k)).
  { intros x X. apply in_map_iff in X. destruct X as (a & E & _). apply in_seq. pose proof (B a). lia. }
  pose proof (NoDup_incl_length distinct inside) as L. rewrite map_length, seq_length in L. exact L.
Qed.

(* If several kinds of locks are used with one name, two attempts that hold together are entries of one owner, or readers,
   or in different slots of one semaphore. *)
Theorem kinds_exclude_each_other :
  forall m s, reachable (mixed m) fenced (fun a => owner_of (m a)) s -> forall a b, a <> b -> holds s a -> holds s b ->
  ~ retired s a -> ~ retired s b -> joins (m a) (m b).
Proof.
  intros m s R a b E A B Ta Tb. destruct (joins_decidable (m a) (m b)) as [J|J]; auto. exfalso.
  apply (mutual_exclusion N len longest len_bounded (mixed m) (mixed_symmetric m) (mixed_irreflexive m) fenced _
    s R a b A B Ta Tb). split; auto.
Qed.

End Kinds.
