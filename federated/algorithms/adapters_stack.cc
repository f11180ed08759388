// Stacks the adapters of all clients and truncates the result to one rank (federated/aggregation/stack.cc).
#include "federated/algorithms/adapter_rule.h"

namespace rivulet {
namespace {

Status StackAdapters(const AdapterContext& context, Composition& composition) {
  const Scenario& scenario = context.scenario;
  if (scenario.secure.on())
    return InvalidArgument(
        "server.lora is \"stack\", which keeps each client's update, and privacy.secure hides them; set server.lora to "
        "\"average\" or \"freeze_a\"");
  AggregationSpec& aggregation = composition.aggregation;
  if (aggregation.rule != "mean")
    return InvalidArgument(
        "server.lora is \"stack\", and algorithm.name = \"{}\" has the aggregation rule '{}' already; choose "
        "\"fedavg\"",
        scenario.algorithm.name, aggregation.rule);
  if (composition.server_optimizer.name != "sgd" || scenario.server.learning_rate != 1 ||
      scenario.server.schedule.kind != "constant")
    return InvalidArgument(
        "server.lora is \"stack\", which gives a version's factors whole, and a server's step would mix them with the "
        "old ones; set server.learning_rate to 1, without a schedule, and choose \"fedavg\"");
  if (scenario.server.sum_bits != 64)
    return InvalidArgument(
        "server.lora is \"stack\", which keeps updates instead of sums, and server.sum_bits is {}; set it to 64",
        scenario.server.sum_bits);
  if (composition.policy.base == TaskPolicy::Base::kLatest)
    return InvalidArgument(
        "server.lora is \"stack\", whose updates start from one version; set server.base to \"committed\"");
  if (!context.in_base.empty())
    return InvalidArgument(
        "server.lora is \"stack\", and '{}' is in the base model, where nothing is trained; train it, or set "
        "server.lora to \"freeze_a\"",
        context.in_base[0]);
  for (const AdapterPair& pair : context.pairs)
    if (!pair.trains_both())
      return InvalidArgument(
          "server.lora is \"stack\", and '{}' or '{}' is not trained; set model.lora.freeze_a to false, or server.lora "
          "to "
          "\"freeze_a\"",
          pair.a->name, pair.b->name);
  aggregation.rule = "stack";
  aggregation.rule_settings = {{"rank", static_cast<double>(scenario.server.lora_rank)}};
  return absl::OkStatus();
}

RIVULET_ADAPTER_RULE(stack_adapters_registration,
                     {.name = "stack",
                      .doc = "keeps a round's updates, puts their factors side by side and cuts the product to "
                             "`server.lora_rank` by singular values",
                      .compose = StackAdapters});

}  // namespace
}  // namespace rivulet
