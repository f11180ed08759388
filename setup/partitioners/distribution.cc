// Shares of labels from a matrix in a file: one row per client, one column per label in increasing order. Each label's
// examples are divided in proportion to its column, so all are used, whatever the column's sum. Flower's
// DistributionPartitioner with rescaling divides a label in the same way.
#include <charconv>
#include <cmath>

#include "engine/base/math.h"
#include "engine/datasets/csv_reader.h"
#include "setup/partitioners/by_label.h"

namespace rivulet {
namespace {

// Row by row.
StatusOr<std::vector<double>> ReadMatrix(const std::string& path, int64_t rows, size_t columns) {
  RIVULET_ASSIGN_OR_RETURN(const auto source, SourceFile::Open(path));
  CsvReader reader(*source, ',');
  std::vector<double> matrix;
  std::vector<std::string> cells;
  for (int64_t row = 0;; ++row) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, reader.Next(cells));
    if (!more && row == rows) return matrix;
    if (!more || row == rows)
      return InvalidArgument("{} has {} rows, but data.partition.clients is {}; give a row for each client", path,
                             more ? "more" : fmt::format("{}", row), rows);
    if (cells.size() != columns)
      return InvalidArgument("{} has {} cells, but the data have {} labels; give a number for each label",
                             reader.Where(), cells.size(), columns);
    for (const std::string& cell : cells) {
      const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ') + 1;
      double value = -1;
      const auto [rest, error] = begin == std::string::npos
                                     ? std::from_chars_result{cell.data(), std::errc::invalid_argument}
                                     : std::from_chars(cell.data() + begin, cell.data() + end, value);
      if (error != std::errc() || rest != cell.data() + end || !(value >= 0) || !std::isfinite(value))
        return InvalidArgument("{}: '{}' is no share; give numbers from 0", reader.Where(), cell.substr(0, 40));
      matrix.push_back(value);
    }
  }
}

StatusOr<Shares> PartitionDistribution(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  const std::string& file = settings.text("distribution");
  if (file.empty())
    return InvalidArgument("data.partition.kind is 'distribution', but data.partition.distribution names no file");
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  const std::vector<std::vector<uint32_t>> piles = LabelPiles(labels, seed);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<double> matrix, ReadMatrix(file, clients, piles.size()));
  const LabelLaw law = [&](size_t label) {
    return Proportions(request.clients, PartitionDraws(request.seed, PartitionOp::kLabelShares),
                       [&, label](int64_t client, Draws&) {
                         return math::Log(matrix[static_cast<size_t>(client) * piles.size() + label]);
                       });
  };
  for (size_t label = 0; label < piles.size(); ++label)
    if (!law(label).any())
      return InvalidArgument("{}: column {} gives no client any of its label's {} examples", file, label + 1,
                             piles[label].size());
  LabelAssignment assignment = DealSizes(piles, clients, law);
  if (assignment.fewest == 0)
    return InvalidArgument("{}: row {} gives its client no example; raise its shares, or leave the client out", file,
                           assignment.smallest + 1);
  return DealByLabel(piles, std::move(assignment), law);
}

RIVULET_PARTITIONER(
    distribution_registration,
    {.name = "distribution",
     .doc = "takes a matrix of labels and clients from a file",
     .settings = {WithExample(Text("distribution", "",
                                   "A CSV file without header: a row for each client, a column for each "
                                   "label in increasing order, numbers from 0. Each label's examples are "
                                   "divided in proportion to its column."),
                              "\"shares.csv\"")},
     .divide = PartitionDistribution,
     .files = {"distribution"}});

}  // namespace
}  // namespace rivulet
