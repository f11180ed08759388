#include "simulations/launchers/joined_partials.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/intake/site_partial.h"
#include "federated/aggregation/updates_rule.h"
#include "federated/updates/site_partial_bytes.h"
#include "federated/updates/task_records.h"
#include "simulations/launchers/packed.h"

namespace rivulet {
namespace {

constexpr int64_t kMostTasksOfStep = int64_t{1} << 31;

// All except the sums themselves.
std::string Counts(const LocalTaskServer::Folded& own) {
  Packer counts;
  counts.Text(own.records.empty() ? "" : WriteTaskRecords(own.records));
  for (const PartSums& part : own.partial.parts) {
    counts.Number(part.weight_sum).Number(part.updates).Number(part.nonzeros).Number(part.lost_nonzeros);
  }
  for (const WideSum& scalar : own.partial.scalars) counts.Number(scalar.low()).Number(scalar.high());
  return std::move(counts).Take();
}

Status AddCounts(std::string_view bytes, LocalTaskServer::Folded& all) {
  Unpacker counts(bytes);
  if (const std::string_view records = counts.Text(); !records.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const TaskRecords read,
                             ReadTaskRecords(std::as_bytes(std::span(records)), kMostTasksOfStep, kMostScalars));
    for (const TaskRecord& record : read.records) {
      all.partial.tasks.insert(record.task);
      all.records.push_back(record);
    }
  }
  for (PartSums& part : all.partial.parts) {
    for (int64_t* const count : {&part.weight_sum, &part.updates, &part.nonzeros, &part.lost_nonzeros}) {
      if (__builtin_add_overflow(*count, counts.Number<int64_t>(), count)) counts.Refuse();
    }
  }
  for (WideSum& scalar : all.partial.scalars) {
    const auto low = counts.Number<uint64_t>(), high = counts.Number<uint64_t>();
    scalar.Add(WideSum(low, high));
  }
  if (!counts.ok()) return Internal("a rank's counts are of another plan");
  return absl::OkStatus();
}

StatusOr<LocalTaskServer::Folded> JoinSums(Ranks& ranks, LocalTaskServer::Folded own) {
  const std::vector<std::string> counts = ranks.Gather(Counts(own));
  for (PartSums& part : own.partial.parts) {
    if (!part.sums.empty()) ranks.Sum(std::span(part.sums));
    if (!part.sums32.empty()) ranks.Sum(std::span(part.sums32));
  }
  LocalTaskServer::Folded all;
  if (ranks.rank() > 0) return all;
  all.partial = std::move(own.partial);  // its sums are the total now, and its counts are among the gathered ones
  all.partial.tasks.clear();
  for (PartSums& part : all.partial.parts) part.weight_sum = part.updates = part.nonzeros = part.lost_nonzeros = 0;
  for (WideSum& scalar : all.partial.scalars) scalar = WideSum();
  for (const std::string& of_rank : counts) RIVULET_RETURN_IF_ERROR(AddCounts(of_rank, all));
  return all;
}

StatusOr<LocalTaskServer::Folded> BringUpdates(Ranks& ranks, const AggregationSpec& spec, int64_t base_version,
                                               LocalTaskServer::Folded own) {
  RIVULET_ASSIGN_OR_RETURN(const auto aggregation, Aggregation::Create(spec));
  // Even after an error the others wait for this rank's part.
  Status status = own.records.empty() ? absl::OkStatus() : aggregation->Merge(std::move(own.partial));
  std::string bytes;
  if (status.ok() && !own.records.empty() && ranks.rank() > 0) {  // the leader's own stay in place
    StatusOr<std::string> taken = TakeSitePartial(*aggregation, base_version, own.records);
    status = taken.status();
    if (taken.ok()) bytes = *std::move(taken);
  }
  const std::vector<std::string> brought = ranks.Gather(bytes);
  RIVULET_RETURN_IF_ERROR(status);
  LocalTaskServer::Folded all;
  if (ranks.rank() > 0) return all;
  all.records = std::move(own.records);
  for (const std::string& of_rank : brought) {
    if (of_rank.empty()) continue;
    RIVULET_ASSIGN_OR_RETURN(SitePartial read, ReadSitePartial(std::as_bytes(std::span(of_rank)), spec, base_version));
    RIVULET_RETURN_IF_ERROR(aggregation->Merge(std::move(read.partial)));
    all.records.insert(all.records.end(), read.records.begin(), read.records.end());
  }
  all.partial = aggregation->Extract(base_version);
  return all;
}

}  // namespace

StatusOr<LocalTaskServer::Folded> JoinPartials(Ranks& ranks, const AggregationSpec& spec, int64_t base_version,
                                               LocalTaskServer::Folded own) {
  const bool summed = !IsUpdatesRule(spec.rule);
  if (own.records.empty() && summed) own.partial = EmptyPartial(spec, base_version);
  return summed ? JoinSums(ranks, std::move(own)) : BringUpdates(ranks, spec, base_version, std::move(own));
}

}  // namespace rivulet
