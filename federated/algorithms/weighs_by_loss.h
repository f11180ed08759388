// Federated averaging weighted by each client's loss of the received model: the base of q_fedavg.cc and term.cc.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "federated/algorithms/algorithm.h"

namespace rivulet {

// Clients measure the received model, and the task declares the result as "initial_loss". `mechanism` multiplies an
// update's values by a function of that loss and declares its term of the sum's divisor: the scalar `weight`. The
// mechanism's `reference` is the algorithm's option of that name. It follows the largest (`by_largest` true) or
// smallest (false) loss; with nullopt all weights are 1 and it is constant.
// `more_bits`: bits for its largest factor above server.value_bits. INVALID_ARGUMENT: the model has running statistics,
// which are averaged without weights.
inline StatusOr<Composition> FedAvgByLoss(const AlgorithmContext& context, PieceSpec mechanism,
                                          const std::string& weight, std::optional<bool> by_largest,
                                          int more_bits = 0) {
  const Scenario& scenario = context.scenario;
  if (context.layout.elements(Segment::kShared) > 0) {
    return InvalidArgument(
        "[algorithm] name = \"{}\" divides updates by weights of their losses, but the running statistics of this "
        "model (batch_norm) are averaged; use a model without them, or \"fedavg\"",
        scenario.algorithm.name);
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  // After the training, so that the training's random draws are those of federated averaging.
  PassBuilder look;
  look.models = {{.buffer = "base_params"}};
  look.trains = "";
  look.reports = "initial_loss";
  composition.passes.push_back(std::move(look));
  const double reference = context.settings.number("reference");
  mechanism.settings["reference"] = reference;
  composition.mechanisms = {std::move(mechanism)};
  // Updates of several versions in one sum need one constant reference.
  if (by_largest && scenario.server.base != "latest") {
    composition.numbers = {"loss_reference"};
    composition.number_rule = {"loss_reference", {{"first", reference}, {"largest", *by_largest}}};
  }
  PartSpec delta = {.value_bits = std::min(30, static_cast<int>(scenario.server.value_bits) + more_bits),
                    .weigh = "one"};
  delta.denominator = {.kind = Denominator::Kind::kScalar, .scalar = weight};
  composition.aggregation.parts = {std::move(delta)};
  composition.aggregation.scalars = {{weight, "one"}};
  return composition;
}

}  // namespace rivulet
