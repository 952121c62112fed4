(* Leases by majority vote: mutual exclusion, increasing fences, and no decision while a conflicting attempt holds.

   These are theorems about the model in Model.v, for one name and one generation of nodes. They hold for any relation that
   says which attempts must not hold together. *)

Require Import Arith Lia List Bool.
Require Import Majority.
Require Model.
Export Model.

Section Protocol.

Variable N : nat.
Variable len : attempt -> nat.
Variable longest : nat.
Hypothesis len_bounded : forall a, len a <= longest.
Variable conflict : attempt -> attempt -> Prop.
Hypothesis conflict_symmetric : forall a b, conflict a b -> conflict b a.
Hypothesis conflict_irreflexive : forall a, ~ conflict a a.
Variable fenced : attempt -> Prop.
Variable owner : attempt -> option nat.

Local Notation live := (live len).
Local Notation live_with := (live_with len).
Local Notation holds := (holds N len).
Local Notation decides := (decides N len).
Local Notation step := (step N len longest conflict fenced owner).
Local Notation reachable := (reachable N len longest conflict fenced owner).

(* ------------------------------------------------------------------------------------------------ invariant *)

Record Invariant (s : state) : Prop := {
  (* no request comes from the future *)
  V_asked    : forall i a x p, asked s i a x p -> x <= now s;
  V_renewing : forall i a x, renewing s i a x -> x <= now s;
  V_sent     : forall i a x w, granted s i a x w -> x <= now s;
  (* only decided attempts renew *)
  V_renewed  : forall i a x, renewing s i a x -> fence s a <> None;
  V_alive    : forall a, alive s a -> fence s a <> None;
  (* a grant, counted from its request, ends before the vote does *)
  V_granted  : forall i a x w, granted s i a x w -> x + len a <= promised s i a;
  V_promised : forall i a, promised s i a <= now s + longest;
  (* a promise is kept, or the attempt is over, or the node is in quarantine until the promise has ended *)
  V_vote     : forall i a, now s < promised s i a -> over s a \/ vote s i a \/ promised s i a <= ripe_at s i;
  V_inside   : forall i, now s < ripe_at s i -> outside s i = true;
  V_outside  : forall i a, outside s i = true -> ~ vote s i a;
  V_ripe     : forall i a, outside s i = true -> promised s i a <= ripe_at s i;
  (* two votes of one node do not conflict, and two promises of one node do not conflict *)
  V_together : forall i a b, vote s i a -> vote s i b -> ~ conflict a b;
  V_excluded : forall i a b, now s < promised s i a -> now s < promised s i b -> ~ over s a -> ~ over s b ->
                 ~ conflict a b;
  (* a node's counter is at or above every fence that it granted and that counts, or that was decided with its vote *)
  V_high     : forall i b x w, granted s i b x w -> now s < x + len b -> outside s i = true \/ w <= counter s i;
  V_counter  : forall i b t, fence s b = Some t -> In i (voters s b) -> outside s i = true \/ t <= counter s i;
  V_first    : forall i a, fence s a = None -> vote s i a -> first s i a <= counter s i;
  V_value    : forall i a x w, granted s i a x w -> now s < x + len a -> ~ over s a -> fence s a = None ->
                 first s i a <= w;
  (* a vote for an undecided attempt is younger than every grant and every decision that it conflicts with *)
  V_below    : forall i a b x w, granted s i b x w -> now s < x + len b -> conflict a b -> fenced a -> ~ over s a ->
                 fence s a = None -> (vote s i a \/ now s < promised s i a) -> w < first s i a;
  V_younger  : forall i a b t, fence s b = Some t -> In i (voters s b) -> conflict a b -> fenced a -> ~ over s a ->
                 fence s a = None -> (vote s i a \/ now s < promised s i a) -> t < first s i a;
  V_majority : forall b t, fence s b = Some t -> majority N (voters s b);
  (* while a node refuses an owner, it has no vote of the owner *)
  V_refused  : forall i a o, refuses s i o -> owner a = Some o -> ~ vote s i a;
  V_owned    : forall a, retired s a -> owner a <> None
}.

Ltac open := unfold update, update2 in *; simpl in *.
Ltac same j i := destruct (Nat.eqb_spec j i); subst; simpl in *.

(* If a grant counts now, the node's promise ends later than now. *)
Lemma live_is_promised : forall s, Invariant s -> forall i a, live s i a -> now s < promised s i a.
Proof. intros s I i a (x & w & G & L). pose proof (V_granted s I i a x w G). lia. Qed.

(* A grant that counts with a given fence counts. *)
Lemma live_with_is_live : forall s i a w, live_with s i a w -> live s i a.
Proof. intros s i a w (x & G & L). exists x, w. auto. Qed.

(* A node that is not in quarantine has the votes that it promised to keep. *)
Lemma promised_is_voted :
  forall s, Invariant s -> forall i a, now s < promised s i a -> ~ over s a -> outside s i = false -> vote s i a.
Proof.
  intros s I i a P D O. destruct (V_vote s I i a P) as [X|[X|X]]; [contradiction|assumption|].
  assert (outside s i = true) by (apply (V_inside s I); lia). congruence.
Qed.

(* While a node has promised its vote to an attempt that is not over, it has no vote for a conflicting attempt. *)
Lemma promise_excludes_votes :
  forall s, Invariant s -> forall i a b, now s < promised s i b -> ~ over s b -> vote s i a -> ~ conflict a b.
Proof.
  intros s I i a b P D V C.
  destruct (outside s i) eqn:O; [exact (V_outside s I i a O V)|].
  exact (V_together s I i a b V (promised_is_voted s I i b P D O) C).
Qed.

(* A node that may grant a vote to [a] has neither a vote nor a promise for an attempt in conflict with [a]. *)
Lemma a_grant_excludes :
  forall s, Invariant s -> forall i a, outside s i = false -> (forall b, vote s i b -> ~ conflict a b) ->
  forall b, conflict b a -> ~ over s b -> (vote s i b \/ now s < promised s i b) -> False.
Proof.
  intros s I i a O F b C D [V|P]; apply conflict_symmetric in C; revert C; apply F; auto.
  eapply promised_is_voted; eauto.
Qed.

(* The invariant holds at the beginning. *)
Lemma invariant_starts : forall s, starts s -> Invariant s.
Proof.
  intros s (V & O & R & P & A & W & G & F & L & T).
  constructor; intros;
    try (exfalso; first [ eapply A; eassumption | eapply W; eassumption | eapply G; eassumption
                        | eapply V; eassumption | eapply L; eassumption | eapply T; eassumption ]);
    try (rewrite F in *; discriminate); try (rewrite O in *; discriminate);
    try (match goal with |- context [promised s ?i ?a] => pose proof (P i a) end; lia);
    try (match goal with H : now s < promised s ?i ?a |- _ => pose proof (P i a) end; lia).
  - pose proof (R i). lia.
  - apply V.
Qed.

(* The steps GrantFresh, GrantAgain and Repair change no requests, decisions, quarantines and retirements. They only make
   promises longer and counters higher. This tactic proves those parts of the invariant that follow from this. *)
Ltac grants s I i a :=
  first
    [ eapply (V_asked s I); eassumption
    | eapply (V_renewing s I); eassumption
    | eapply (V_renewed s I); eassumption
    | eapply (V_alive s I); eassumption
    | eapply (V_majority s I); eassumption
    | eapply (V_owned s I); eassumption
    | apply (V_inside s I); assumption
    | match goal with
      | H : granted s ?j ?b ?x _ \/ _ |- ?x <= now s =>
          destruct H as [X|(A1 & A2 & A3 & A4)]; [exact (V_sent s I _ _ _ _ X)|subst; assumption]
      | H : granted s ?j ?b ?x _ \/ _ |- ?x + len ?b <= _ =>
          destruct H as [X|(A1 & A2 & A3 & A4)];
          [ pose proof (V_granted s I _ _ _ _ X); same j i; [same b a; lia|lia] | subst; rewrite !Nat.eqb_refl; lia ]
      | H : granted s ?j ?b _ _ \/ _ |- outside s ?j = true \/ _ =>
          destruct H as [X|(A1 & A2 & A3 & A4)];
          [ destruct (V_high s I _ _ _ _ X); [assumption|left; assumption|right; same j i; lia]
          | subst; rewrite Nat.eqb_refl; right; lia ]
      | O : outside s ?j = true |- _ <= ripe_at s ?j => same j i; [congruence|apply (V_ripe s I); assumption]
      | |- _ <= now s + longest =>
          match goal with |- context [promised s ?j ?b] =>
          same j i; [same b a; [pose proof (V_promised s I i a); lia|apply (V_promised s I)]|apply (V_promised s I)] end
      | H : context [promised s ?j ?b] |- context [vote s ?j ?b] =>
          same j i; [same b a; [solve [auto]|apply (V_vote s I); assumption]|apply (V_vote s I); assumption]
      | F : fence s ?b = Some ?t, V : In ?j (voters s ?b) |- outside s ?j = true \/ _ =>
          same j i; [destruct (V_counter s I i b t F V); [auto|right; lia]|eapply (V_counter s I); eassumption]
      end ].

(* Every step preserves the invariant. *)
Lemma invariant_step : forall s s', Invariant s -> step s s' -> Invariant s'.
Proof.
  intros s s' I H. destruct H.
  - (* Tick *) subst s'. constructor; unfold over, refuses in *; simpl; intros; try (destruct I; eauto; fail).
    + pose proof (V_asked s I _ _ _ _ H). lia.
    + pose proof (V_renewing s I _ _ _ H). lia.
    + pose proof (V_sent s I _ _ _ _ H). lia.
    + destruct H. eapply V_alive; eauto.
    + pose proof (V_promised s I i a). lia.
    + apply (V_vote s I). lia.
    + apply (V_inside s I). lia.
    + eapply (V_excluded s I i); eauto; lia.
    + eapply (V_high s I); eauto. lia.
    + eapply (V_value s I); eauto. lia.
    + eapply (V_below s I); eauto; [lia|]. destruct H5; [left; auto|right; lia].
    + eapply (V_younger s I); eauto. destruct H5; [left; auto|right; lia].
    + apply (V_refused s I i a o); auto. unfold refuses. lia.
  - (* Ask *) constructor; unfold over, refuses in *; simpl; intros; try (destruct I; eauto; fail).
    destruct H0 as [X|(A1 & A2 & A3 & A4)]; subst; [eapply V_asked; eauto|lia].
  - (* Renew *) constructor; unfold over, refuses in *; simpl; intros; try (destruct I; eauto; fail).
    + destruct H1 as [X|(A1 & A2 & A3)]; subst; [eapply V_renewing; eauto|lia].
    + destruct H1 as [X|(A1 & A2 & A3)]; subst; [eapply V_renewed; eauto|]. eapply V_alive; eauto.
  - (* GrantFresh *) rename H into Hr, H0 into Ho, H1 into Ha, H2 into Hn, H3 into Hv, H4 into Hs.
    pose proof (V_asked s I _ _ _ _ Hr) as Hx. pose proof (len_bounded a) as HL.
    pose proof (a_grant_excludes s I i a Ho Hv) as free.
    constructor; unfold over, refuses in *; open; intros; try (grants s I i a; fail).
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
      * intro C. apply (free b); auto.
      * intro C. apply (free a0); auto.
      * eapply (V_excluded s I i); eauto.
    + same i0 i; [same a0 a; [lia|pose proof (V_first s I i a0 H H0); lia]|eapply (V_first s I); eauto].
    + destruct H as [X|(A1 & A2 & A3 & A4)]; [|subst; rewrite !Nat.eqb_refl; lia].
      same i0 i; [same a0 a|]; try (eapply (V_value s I); eauto; fail).
      exfalso. pose proof (V_granted s I _ _ _ _ X). apply Hn. eapply promised_is_voted; eauto. lia.
    + destruct H as [X|(A1 & A2 & A3 & A4)].
      * same i0 i; [same a0 a|]; try (eapply (V_below s I); eauto; fail).
        destruct (V_high s I _ _ _ _ X H0); [congruence|]. destruct (Hs H2). lia.
      * subst. rewrite !Nat.eqb_refl in *. same a0 a; [exfalso; eapply conflict_irreflexive; eauto|].
        exfalso. apply (free a0); auto.
    + same i0 i; [|eapply (V_younger s I); eauto].
      same a0 a; [|eapply (V_younger s I); eauto].
      destruct (V_counter s I i b t H H0); [congruence|]. destruct (Hs H2). lia.
    + same i0 i; [same a0 a|]; try (eapply (V_refused s I); eauto; fail).
      intros _. exact (Ha o H0 H).
  - (* GrantAgain *) rename H into Hr, H0 into Ho, H1 into Ha, H2 into Hv, H3 into Hp, H4 into Hw.
    pose proof (V_asked s I _ _ _ _ Hr) as Hx. pose proof (len_bounded a) as HL.
    assert (free : forall b, conflict b a -> ~ over s b -> (vote s i b \/ now s < promised s i b) -> False).
    { intros b C D V. apply (a_grant_excludes s I i a Ho (fun c W => V_together s I i a c Hv W) b C D V). }
    constructor; unfold over, refuses in *; open; intros; try (grants s I i a; fail); try (destruct I; eauto; fail).
    + same i0 i; [|eapply (V_excluded s I i0); eauto].
      same a0 a; same b a.
      * apply conflict_irreflexive.
      * intro C. apply (free b); auto.
      * intro C. apply (free a0); auto.
      * eapply (V_excluded s I i); eauto.
    + same i0 i; [pose proof (V_first s I i a0 H H0); lia|eapply (V_first s I); eauto].
    + destruct H as [X|(A1 & A2 & A3 & A4)]; [eapply (V_value s I); eauto|].
      subst. pose proof (V_first s I i a H2 Hv). lia.
    + destruct H as [X|(A1 & A2 & A3 & A4)].
      * same i0 i; [same a0 a|]; eapply (V_below s I); eauto.
      * subst. rewrite !Nat.eqb_refl in *. same a0 a; [exfalso; eapply conflict_irreflexive; eauto|].
        exfalso. apply (free a0); auto.
    + same i0 i; [|eapply (V_younger s I); eauto]. same a0 a; eapply (V_younger s I); eauto.
  - (* Repair *) rename H into Hr, H0 into Ho, H1 into Ha, H2 into Hv.
    pose proof (V_renewing s I _ _ _ Hr) as Hx. pose proof (V_renewed s I _ _ _ Hr) as Hf.
    pose proof (len_bounded a) as HL. pose proof (a_grant_excludes s I i a Ho Hv) as free.
    constructor; unfold over, refuses in *; open; intros; try (grants s I i a; fail).
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
      * intro C. apply (free b); auto.
      * intro C. apply (free a0); auto.
      * eapply (V_excluded s I i); eauto.
    + same i0 i; [same a0 a; [contradiction|pose proof (V_first s I i a0 H H0); lia]|eapply (V_first s I); eauto].
    + destruct H as [X|(A1 & A2 & A3 & A4)]; [|subst; contradiction]. eapply (V_value s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]|]; destruct H as [X|(A1 & A2 & A3 & A4)];
        try (eapply (V_below s I); eauto; fail); subst; exfalso; [apply (free a0); auto|contradiction].
    + same i0 i; [|eapply (V_younger s I); eauto]. same a0 a; [contradiction|eapply (V_younger s I); eauto].
    + same i0 i; [same a0 a|]; try (eapply (V_refused s I); eauto; fail).
      intros _. exact (Ha o H0 H).
  - (* Expire *) constructor; unfold over, refuses in *; open; intros; try (destruct I; eauto; fail).
    + destruct (V_vote s I i0 a0 H1) as [X|[X|X]]; auto. same i0 i; auto. same a0 a; [lia|auto].
    + same i0 i; [same a0 a; [auto|]|]; eapply (V_outside s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]; same b a; [contradiction|]|]; eapply (V_together s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]|]; eapply (V_first s I); eauto.
    + same i0 i; [same a0 a; [destruct H7; [contradiction|]|]|]; eapply (V_below s I); eauto.
    + same i0 i; [same a0 a; [destruct H7; [contradiction|]|]|]; eapply (V_younger s I); eauto.
    + same i0 i; [same a0 a; [auto|]|]; eapply (V_refused s I); eauto.
  - (* Release *) constructor; unfold over, refuses in *; open; intros; try (destruct I; eauto; fail).
    + destruct (V_vote s I i0 a0 H0) as [X|[X|X]]; auto. same i0 i; auto. same a0 a; auto.
    + same i0 i; [same a0 a; [auto|]|]; eapply (V_outside s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]; same b a; [contradiction|]|]; eapply (V_together s I); eauto.
    + same i0 i; [same a0 a; [contradiction|]|]; eapply (V_first s I); eauto.
    + same i0 i; [same a0 a; [tauto|]|]; eapply (V_below s I); eauto.
    + same i0 i; [same a0 a; [tauto|]|]; eapply (V_younger s I); eauto.
    + same i0 i; [same a0 a; [auto|]|]; eapply (V_refused s I); eauto.
  - (* Retire *) constructor; unfold after_retirement, over, refuses in *; open; intros; try (destruct I; eauto; fail).
    + assert (E : {owner a = Some o} + {owner a <> Some o}) by repeat decide equality.
      destruct (V_vote s I i0 a H) as [[X|X]|[X|X]]; auto.
      destruct (Nat.eq_dec i0 i) as [J|J]; [subst; destruct E; auto|]; right; left; split; auto; intros [? ?]; auto.
    + intros [X _]. exact (V_outside s I i0 a H X).
    + destruct H, H0. eapply (V_together s I); eauto.
    + eapply (V_excluded s I i0); eauto; unfold over; tauto.
    + destruct H0. eapply (V_first s I); eauto.
    + eapply (V_value s I); eauto; unfold over; tauto.
    + eapply (V_below s I); eauto; unfold over; tauto.
    + eapply (V_younger s I); eauto; unfold over; tauto.
    + intros [X Y]. same i0 i; [same o0 o; [tauto|]|]; eapply (V_refused s I); eauto.
    + destruct H as [X|[_ X]]; [eapply (V_owned s I); eauto|congruence].
  - (* Crash *) constructor; unfold over, refuses in *; open; intros; try (destruct I; eauto; fail).
    + same i0 i; [|apply (V_vote s I); auto]. pose proof (V_promised s I i a). right; right; lia.
    + same i0 i; auto. apply (V_inside s I); auto.
    + same i0 i; auto. apply (V_outside s I); auto.
    + same i0 i; [pose proof (V_promised s I i a); lia|]. apply (V_ripe s I); auto.
    + same i0 i; [contradiction|]. eapply (V_together s I); eauto.
    + same i0 i; auto. eapply (V_high s I); eauto.
    + same i0 i; auto. eapply (V_counter s I); eauto.
    + same i0 i; [contradiction|]. eapply (V_first s I); eauto.
    + same i0 i; [destruct H6; [contradiction|]|]; eapply (V_below s I); eauto.
    + same i0 i; [destruct H6; [contradiction|]|]; eapply (V_younger s I); eauto.
    + same i0 i; [lia|]. eapply (V_refused s I); eauto.
  - (* Rejoin *) rename H into Ho, H0 into Hq, H1 into Hc.
    constructor; unfold over, refuses in *; open; intros; try (destruct I; eauto; fail).
    + same i0 i; [lia|]. apply (V_inside s I); auto.
    + same i0 i; [discriminate|]. apply (V_outside s I); auto.
    + same i0 i; [discriminate|]. apply (V_ripe s I); auto.
    + same i0 i; [|eapply (V_high s I); eauto].
      pose proof (V_granted s I _ _ _ _ H). pose proof (V_ripe s I i b Ho). lia.
    + same i0 i; [right; eauto|]. eapply (V_counter s I); eauto.
    + same i0 i; [exfalso; exact (V_outside s I i a Ho H0)|]. eapply (V_first s I); eauto.
  - (* Decide *) destruct H as (Hd & Hf & Hm & Hl).
    constructor; unfold over, refuses in *; simpl; intros; try (destruct I; eauto; fail).
    + same a0 a; [discriminate|eapply V_renewed; eauto].
    + same a0 a; [discriminate|]. destruct H as [X|X]; [eapply V_alive; eauto|contradiction].
    + same b a; [|eapply (V_counter s I); eauto].
      injection H as <-. destruct (Hl i H0) as (x & X1 & X2). eapply (V_high s I); eauto.
    + same a0 a; [discriminate|]. eapply (V_first s I); eauto.
    + same a0 a; [discriminate|]. eapply (V_value s I); eauto.
    + same a0 a; [discriminate|]. eapply (V_below s I); eauto.
    + same a0 a; [discriminate|]. same b a; [|eapply (V_younger s I); eauto].
      injection H as <-. destruct (Hl i H0) as (x & X1 & X2). eapply (V_below s I i a0 a); eauto.
    + same b a; [injection H as <-; auto|eapply V_majority; eauto].
  - (* Finish *) constructor; unfold over, refuses in *; simpl; intros; try (destruct I; eauto; fail).
    + destruct H. eapply V_alive; eauto.
    + destruct (V_vote s I i a0 H) as [[X|X]|[X|X]]; auto.
    + eapply (V_excluded s I i); eauto; unfold over; tauto.
    + eapply (V_value s I); eauto; unfold over; tauto.
    + eapply (V_below s I); eauto; unfold over; tauto.
    + eapply (V_younger s I); eauto; unfold over; tauto.
Qed.

(* The invariant holds in every reachable state. *)
Lemma invariant_holds : forall s, reachable s -> Invariant s.
Proof. induction 1; [apply invariant_starts; auto|eapply invariant_step; eauto]. Qed.

(* ------------------------------------------------------------------------------------------------- theorems *)

(* Two attempts that hold at the same instant do not conflict, even if messages were lost, delayed or repeated and nodes
   lost their memory. This is not true for retired attempts, which have lost a vote because their owner was retired. *)
Theorem mutual_exclusion :
  forall s, reachable s -> forall a b, holds s a -> holds s b -> ~ retired s a -> ~ retired s b -> ~ conflict a b.
Proof.
  intros s R a b (Da & _ & P & MP & LP) (Db & _ & Q & MQ & LQ) Ta Tb.
  pose proof (invariant_holds s R) as I. destruct (majorities_meet N P Q MP MQ) as (i & X & Y).
  apply (V_excluded s I i); try (apply live_is_promised; auto); unfold over; tauto.
Qed.

(* While an attempt holds, no conflicting attempt decides, unless one of the two is retired. *)
Theorem no_decision_while_another_holds :
  forall s, reachable s -> forall a b t Q, holds s a -> decides s b t Q -> ~ retired s a -> ~ retired s b -> ~ conflict a b.
Proof.
  intros s R a b t Q (Da & _ & P & MP & LP) (Db & _ & MQ & LQ) Ta Tb.
  pose proof (invariant_holds s R) as I. destruct (majorities_meet N P Q MP MQ) as (i & X & Y).
  apply (V_excluded s I i); try (apply live_is_promised; auto); try (unfold over; tauto). eapply live_with_is_live; eauto.
Qed.

(* A fence is higher than the fences of all earlier conflicting decisions, also of those whose owner was retired. Only an
   attempt that decides after a retirement of its own owner may have a lower fence. *)
Theorem fences_increase :
  forall s, reachable s -> forall a t Q, decides s a t Q -> fenced a -> ~ retired s a ->
  forall b u, fence s b = Some u -> conflict a b -> u < t.
Proof.
  intros s R a t Q (Da & Fa & MQ & L) new Ta b u Fb C. pose proof (invariant_holds s R) as I.
  destruct (majorities_meet N Q (voters s b) MQ (V_majority s I b u Fb)) as (i & X & Y).
  assert (Oa : ~ over s a) by (unfold over; tauto).
  pose proof (live_is_promised s I i a (live_with_is_live _ _ _ _ (L i X))) as P.
  pose proof (V_younger s I i a b u Fb Y C new Oa Fa (or_intror P)) as H.
  destruct (L i X) as (x & G & T). pose proof (V_value s I i a x t G T Oa Fa). lia.
Qed.

(* A step that removes no grant and lets no time pass keeps an attempt backed. *)
Ltac still_backed IH a A :=
  destruct (IH a A) as (D & F & P & M & L); repeat split; auto; exists P; split; auto;
  intros j J; destruct (L j J) as (y & v & G & T); exists y, v; auto.

(* An attempt that is alive holds. *)
Lemma alive_holds : forall s, reachable s -> forall a, alive s a -> holds s a.
Proof.
  induction 1 as [s H|s s' R IH H]; intros a A;
    [exfalso; destruct H as (_ & _ & _ & _ & _ & _ & _ & _ & X & _); eapply X; eauto|].
  unfold Model.holds, backed, Model.live in *.
  destruct H; unfold after_retirement in *; simpl in *; try (auto; fail); try (still_backed IH a A; fail).
  - subst s'. simpl in *. destruct A as (A & B). destruct (IH a A) as (D & F & _). auto.
  - destruct H as (Hd & Hf & Hm & Hl). destruct (Nat.eqb_spec a a0) as [E|E].
    + subst. repeat split; [auto|discriminate|]. exists Q. split; auto. intros j J. destruct (Hl j J) as (y & G & T). eauto.
    + destruct A as [A|A]; [auto|contradiction].
  - destruct A as [A E]. destruct (IH a A) as (D & F & B). repeat split; auto. intros [X|X]; auto.
Qed.

(* An attempt that has held since its decision has the highest fence among all decided attempts that conflict with it,
   except those that decided after a retirement had removed one of their votes. A store that checks fences relies on this. *)
Theorem the_holder_has_the_highest_fence :
  forall s, reachable s -> forall a t, alive s a -> fenced a -> ~ retired s a -> fence s a = Some t ->
  forall b u, fence s b = Some u -> ~ late s b -> conflict a b -> u < t.
Proof.
  induction 1 as [s H|s s' R IH H]; intros a t A new Ta F b u Fb Lb C;
    [exfalso; destruct H as (_ & _ & _ & _ & _ & _ & _ & _ & X & _); eapply X; eauto|].
  destruct H; unfold after_retirement in *; simpl in *; try (eapply IH; eauto; fail).
  - subst s'. simpl in *. destruct A as [A _]. eapply IH; eauto.
  - pose proof H as (Hd & Hf & Hm & Hl).
    destruct (Nat.eqb_spec a a0) as [E|E]; destruct (Nat.eqb_spec b a0) as [E'|E']; subst.
    + exfalso. eapply conflict_irreflexive; eauto.
    + injection F as <-. eapply (fences_increase s R); eauto.
    + exfalso. destruct A as [A|A]; [|contradiction].
      exact (no_decision_while_another_holds s R a a0 t0 Q (alive_holds s R a A) H Ta ltac:(tauto) C).
    + destruct A as [A|A]; [|contradiction]. eapply IH; eauto.
  - destruct A as [A _]. eapply IH; eauto.
Qed.

End Protocol.
