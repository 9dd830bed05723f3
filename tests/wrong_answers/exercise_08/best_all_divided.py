"""All stages divide everything."""

PART = "best"
SENTENCE = "All 16 bytes are divided by N, in each stage"


def best(configurations, model, card, critical_batch):
    def needed(each):
        state = 16 / each.ranks if each.zero_stage else 16
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
