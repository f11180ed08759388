#include "coordinator/intake/site_partial.h"

#include <algorithm>
#include <utility>

#include "federated/aggregation/updates_rule.h"
#include "federated/updates/task_records.h"

namespace rivulet {
namespace {

// Bytes besides sums and records: the header's fields of parts and scalars, the heads of sections.
constexpr int64_t kFramingBytes = 1 << 20;
constexpr int64_t kBytesOfATaskInTheHeader = 1032;

// A part that an update omits has no weight. The record shows that only if it follows from the declared
// scalars.
bool IsCounted(const PartSpec& part) { return !part.optional || part.only_where.has_value(); }

// Each update's weight was checked by the site that aggregated it. It is checked again, because weights bound the
// sums.
Status CheckWeights(const AggregationSpec& spec, const SitePartial& site) {
  std::vector<int64_t> weighed(spec.parts.size());
  std::vector<WideSum> scalars(spec.scalars.size());
  const int64_t most = spec.max_weight << spec.weight_fraction_bits;
  for (const TaskRecord& record : site.records) {
    RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(spec, record.declared, {}));
    for (size_t p = 0; p < weighed.size(); ++p) {
      if (!IsCounted(spec.parts[p]) || !IsIn(spec.parts[p], record.declared)) continue;
      if (weights.parts[p] < 1 || weights.parts[p] > spec.weight_bound(spec.parts[p])) {
        return InvalidArgument("the update of task '{}' weighs {} units in part '{}', which is not between 1 and {}",
                               record.task, weights.parts[p], spec.parts[p].name, spec.weight_bound(spec.parts[p]));
      }
      weighed[p] += weights.parts[p];
    }
    for (size_t i = 0; i < scalars.size(); ++i) {
      const auto declared = record.declared.find(spec.scalars[i].name);
      if (declared == record.declared.end() || !WideSum::Takes(declared->second) || weights.scalars[i] < 1 ||
          weights.scalars[i] > most) {
        return InvalidArgument(
            "the record of task '{}' does not say its '{}' between -2^32 and 2^32, with a weight between 1 and {}",
            record.task, spec.scalars[i].name, most);
      }
      scalars[i].Add(WideSum::Of(weights.scalars[i], declared->second));
    }
  }
  for (size_t p = 0; p < weighed.size(); ++p) {
    if (!IsCounted(spec.parts[p]) || weighed[p] == site.partial.parts[p].weight_sum) continue;
    return InvalidArgument("a site's partial sum weighs {} units in part '{}', and its records {}",
                           site.partial.parts[p].weight_sum, spec.parts[p].name, weighed[p]);
  }
  for (size_t i = 0; i < scalars.size(); ++i) {
    if (scalars[i] == site.partial.scalars[i]) continue;
    return InvalidArgument("a site's partial sum has {} as its sum of '{}', and its records come to {}",
                           site.partial.scalars[i].ToDouble(), spec.scalars[i].name, scalars[i].ToDouble());
  }
  return absl::OkStatus();
}

}  // namespace

int64_t MostSitePartialBytes(const AggregationSpec& spec) {
  const int64_t tasks = spec.updates_per_version;
  int64_t sums = 0;
  for (const PartSpec& part : spec.parts) {
    // Eight bytes per sum; or, for a rule that needs all updates, four per value and twelve per update.
    sums += part.elements * 8 + tasks * (IsUpdatesRule(spec.rule) ? part.elements * 4 + 12 : 0);
  }
  const int64_t crcs = sums / (1 << 20) * 4;
  return kFramingBytes + MostTaskRecordBytes(tasks, std::ssize(spec.scalars)) + tasks * kBytesOfATaskInTheHeader +
         sums + crcs;
}

// Cheap checks come first: no sum is read before its tasks are known.
StatusOr<SitePartial> ReadSitePartial(std::span<const std::byte> bytes, const AggregationSpec& spec,
                                      int64_t base_version, SumFiles* files) {
  SitePartial site;
  RIVULET_ASSIGN_OR_RETURN(TaskRecords read,
                           ReadTaskRecords(bytes, spec.updates_per_version, std::ssize(spec.scalars)));
  site.records = std::move(read.records);
  PartialReader reader(spec, files);
  RIVULET_RETURN_IF_ERROR(reader.Append(read.rest));
  RIVULET_ASSIGN_OR_RETURN(site.partial, std::move(reader).Finish());
  for (const TaskRecord& record : site.records) {
    if (!site.partial.tasks.contains(record.task)) {
      return InvalidArgument("a site's partial sum has a record of task '{}' and no update of it", record.task);
    }
  }
  if (site.partial.tasks.size() != site.records.size() || site.records.empty()) {
    return InvalidArgument(
        "a site's partial sum has {} updates and {} records; it needs at least one update, and one record for each",
        site.partial.tasks.size(), site.records.size());
  }
  if (site.partial.base_version != base_version) {
    return InvalidArgument("a site's partial sum starts from version {}, and its tasks from {}",
                           site.partial.base_version, base_version);
  }
  RIVULET_RETURN_IF_ERROR(CheckWeights(spec, site));
  RIVULET_ASSIGN_OR_RETURN(const auto aggregation, Aggregation::Create(spec));
  RIVULET_RETURN_IF_ERROR(aggregation->Check(site.partial));
  return site;
}

}  // namespace rivulet
