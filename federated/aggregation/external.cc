#include "federated/aggregation/external.h"

#include <algorithm>
#include <cmath>

#include "engine/base/mutex.h"
#include "federated/aggregation/update_spool.h"
#include "federated/aggregation/updates_rule.h"

namespace rivulet {
namespace {

struct InUse {
  Mutex mutex;
  std::shared_ptr<ExternalAggregation> aggregation GUARDED_BY(mutex);
};
InUse& TheOneInUse() {
  static auto* const in_use = new InUse;
  return *in_use;
}

class External final : public UpdatesRule {
 public:
  bool reads_stored() const override { return true; }

  Status ReduceStored(const Stored& stored, std::span<float> out) const override {
    std::shared_ptr<ExternalAggregation> aggregation;
    {
      InUse& in_use = TheOneInUse();
      MutexLock lock(in_use.mutex);
      aggregation = in_use.aggregation;
    }
    if (aggregation == nullptr) {
      return FailedPrecondition(
          "updates are aggregated by a function in Python, and this process has none; start it with --aggregate "
          "MODULE:FUNCTION");
    }
    ExternalRequest request{.version = stored.base_version + 1,
                            .part = stored.part,
                            .elements = static_cast<int64_t>(out.size()),
                            .updates = {}};
    for (const Stored::Update& update : stored.updates)
      request.updates.push_back({.task = std::string(update.task),
                                 .weight = static_cast<double>(update.weight) * stored.weight_unit,
                                 .file = update.spool->path(),
                                 .offset = update.offset});
    RIVULET_RETURN_IF_ERROR(aggregation->Aggregate(request, out));
    const auto bad = std::ranges::find_if_not(out, [](float value) { return std::isfinite(value); });
    if (bad == out.end()) return absl::OkStatus();
    return InvalidArgument("the aggregation function returned {} at element {} of '{}'", *bad, bad - out.begin(),
                           stored.part);
  }

  void Reduce(const Columns&, std::span<float>) const override {}  // never called: the rule reads stored updates
};

RIVULET_UPDATES_RULE(kExternalRule, {}, [](const Settings&) -> std::unique_ptr<const UpdatesRule> {
  return std::make_unique<External>();
});

}  // namespace

void UseExternalAggregation(std::shared_ptr<ExternalAggregation> aggregation) {
  InUse& in_use = TheOneInUse();
  MutexLock lock(in_use.mutex);
  in_use.aggregation = std::move(aggregation);
}

}  // namespace rivulet
