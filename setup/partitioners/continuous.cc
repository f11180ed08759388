// Sorts by a number that each example has, blended with noise, and cuts: the score of an example is strictness × its
// standardised value + (1 - strictness) × a standard normal draw (ContinuousPartitioner in Flower). So 1 sorts and 0
// shuffles.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "setup/partitioners/partitioner.h"
#include "setup/partitioners/sizes.h"

namespace rivulet {
namespace {

StatusOr<std::vector<double>> ReadProperty(const Dataset& data, const std::string& feature) {
  std::vector<double> values(static_cast<size_t>(data.size()));
  std::string record;
  for (int64_t i = 0; i < data.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(data.Read(i, record));
    float number = 0;
    double& value = values[static_cast<size_t>(i)];
    const Status found = FindFloatFeature(record, feature, std::span(&number, 1));
    value = number;
    if (int64_t whole = 0; !found.ok()) {
      if (!FindInt64Feature(record, feature, &whole).ok()) return Annotate(found, data.Where(i));
      value = static_cast<double>(whole);
    }
    if (!std::isfinite(value))
      return InvalidArgument("{}: the value of '{}' is {}; only finite numbers can be sorted by", data.Where(i),
                             feature, value);
  }
  return values;
}

StatusOr<Shares> PartitionContinuous(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  const double strictness = settings.number("strictness");
  const std::string& property = settings.text("property");
  if (property.empty())
    return InvalidArgument("data.partition.kind is 'continuous', but data.partition.property names no feature");
  RIVULET_ASSIGN_OR_RETURN(std::vector<double> scores, ReadProperty(data, property));
  const auto n = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  double squares = 0;
  for (const double score : scores) squares += (score - mean) * (score - mean);
  const double deviation = std::sqrt(squares / n);
  if (!(deviation > 0) && strictness > 0)
    return InvalidArgument("every example has the same value of '{}'; sort by another feature, or use kind = \"iid\"",
                           property);
  Draws draws = PartitionDraws(seed, PartitionOp::kScores);
  for (double& score : scores)
    score = (deviation > 0 ? strictness * ((score - mean) / deviation) : 0) + (1 - strictness) * draws.Normal();
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] < scores[b]; });
  RIVULET_ASSIGN_OR_RETURN(std::vector<uint64_t> ends, SizeEnds(request));
  return Shares::OfNumbered(std::move(ends), std::move(order));
}

RIVULET_PARTITIONER(
    continuous_registration,
    {.name = "continuous",
     .doc = "sorts by a number that each example has",
     .settings = {WithExample(Text("property", "",
                                   "Feature with one number, float or `int64`, that examples are sorted by."),
                              "\"age\""),
                  WithExample(Float("strictness", 1,
                                    "Examples are sorted by strictness · the property, standardised, + "
                                    "(1 − strictness) · a normal draw: 1 sorts, 0 shuffles.")
                                  .Between(0, 1),
                              "0.5"),
                  SizesSetting()},
     .divide = PartitionContinuous,
     .chooses = ChoosesSizes()});

}  // namespace
}  // namespace rivulet
