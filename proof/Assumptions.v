(* Prints the axioms on which each theorem depends. There are none. *)

Require Import Majority Lease Kinds Fence Validity.

Print Assumptions Lease.mutual_exclusion.
Print Assumptions Lease.fences_increase.
Print Assumptions Lease.no_decision_while_another_holds.
Print Assumptions Lease.the_holder_has_the_highest_fence.
Print Assumptions Kinds.exclusive_has_one_holder.
Print Assumptions Kinds.exclusive_fences_increase.
Print Assumptions Kinds.shared_holders_read.
Print Assumptions Kinds.shared_fences_increase.
Print Assumptions Kinds.reentrant_has_one_owner.
Print Assumptions Kinds.slots_bound_the_holders.
Print Assumptions Fence.fences_differ_without_clocks.
Print Assumptions Fence.fences_are_ordered_like_votes.
Print Assumptions Validity.extension_rule.
Print Assumptions Validity.drift_margin.
Print Assumptions Validity.default_drift_is_enough.
Print Assumptions Validity.what_a_client_computes_is_backed.
