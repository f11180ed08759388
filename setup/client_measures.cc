#include "setup/client_measures.h"

#include <utility>

#include "setup/evaluator.h"
#include "setup/some_examples.h"

namespace rivulet {

StatusOr<std::vector<ClientMeasures>> MeasureClients(const std::shared_ptr<const Plan>& plan,
                                                     const std::shared_ptr<const Dataset>& data, const Shares& shares,
                                                     const Model& model, int64_t batch_size,
                                                     const DataProgress& progress) {
  std::vector<ClientMeasures> clients;
  for (int64_t client = 0; client < shares.size(); ++client) {
    if (progress) RIVULET_RETURN_IF_ERROR(progress(client, shares.size()));
    const std::span<const uint32_t> examples = shares.ExamplesOf(client);
    const auto held = std::make_shared<const SomeExamples>(data, std::vector(examples.begin(), examples.end()));
    RIVULET_ASSIGN_OR_RETURN(const auto evaluator,
                             CentralEvaluator::Create(plan, held, {.set = "evaluate", .batch_size = batch_size}));
    ClientMeasures& measured = clients.emplace_back(ClientMeasures{shares.NameAt(client), held->size(), {}});
    RIVULET_ASSIGN_OR_RETURN(measured.measures, evaluator->Evaluate(model));
  }
  return clients;
}

}  // namespace rivulet
