(* Prints the axioms on which each theorem depends. There are none. *)

Require Import Majority Model Lease Kinds Retire Fence Validity Witness.

Print Assumptions Majority.a_majority_exists.
Print Assumptions Lease.mutual_exclusion.
Print Assumptions Lease.no_decision_while_another_holds.
Print Assumptions Lease.fences_increase.
Print Assumptions Lease.the_holder_has_the_highest_fence.
Print Assumptions Kinds.exclusive_has_one_holder.
Print Assumptions Kinds.exclusive_fences_increase.
Print Assumptions Kinds.shared_holders_read.
Print Assumptions Kinds.shared_fences_increase.
Print Assumptions Kinds.reentrant_has_one_owner.
Print Assumptions Kinds.slots_bound_the_holders.
Print Assumptions Kinds.kinds_exclude_each_other.
Print Assumptions Retire.a_retirement_ends_the_entries_of_one_owner.
Print Assumptions Retire.a_refused_owner_has_no_vote.
Print Assumptions Retire.a_retired_owner_gets_no_majority.
Print Assumptions Retire.a_retired_owner_stops.
Print Assumptions Retire.exclusion_returns_after_a_retirement.
Print Assumptions Retire.requests_from_before_a_retirement_do_not_count.
Print Assumptions Fence.fences_differ_without_clocks.
Print Assumptions Fence.fences_are_ordered_like_votes.
Print Assumptions Validity.extension_rule.
Print Assumptions Validity.drift_margin.
Print Assumptions Validity.default_drift_is_enough.
Print Assumptions Validity.what_a_client_computes_is_backed.
Print Assumptions Witness.a_live_lease_is_reachable.
Print Assumptions Witness.every_lock_can_be_held.
Print Assumptions Witness.several_holders_are_reachable.
Print Assumptions Witness.a_second_lease_is_reachable.
Print Assumptions Witness.a_retired_holder_may_overlap.
Print Assumptions Witness.a_retired_attempt_may_decide_late.
Print Assumptions Witness.two_fences_without_clocks_are_reachable.
Print Assumptions Witness.a_client_can_compute_a_validity.
