"""Whole bytes for each parameter, and the rest is lost."""

PART = "best"
SENTENCE = "The bytes of a parameter are rounded down."


def best(configurations, model, card, critical_batch):
    kept = {0: 16, 1: 4, 2: 2, 3: 0}

    def needed(each):
        state = kept[each.zero_stage] + (16 - kept[each.zero_stage]) // each.ranks
        of_sequence = model.recomputed_bytes if each.recompute else model.activation_bytes
        return state * model.parameters + each.batch * of_sequence

    def tokens(each):
        return each.ranks * each.micro_batches * each.batch * model.sequence

    def utilization(each):
        achieved = tokens(each) / each.seconds * model.flops_per_token
        return achieved / (each.ranks * card.teraflops * 1e12)

    within = [each for each in configurations
              if needed(each) <= card.mebibytes * 2**20 and tokens(each) <= critical_batch]
    if not within:
        return None
    chosen = max(within, key=lambda each: (utilization(each), -needed(each)))
    return chosen.name, utilization(chosen)
