// Stacked adapters (Wang et al., "FLoRA: federated fine-tuning large language models with heterogeneous low-rank
// adaptations", NeurIPS 2024, arXiv:2409.05976): the mean of the products is itself a product, of the clients' factors
// side by side:
//
//   Σ p_k (A + a_k) (B + b_k) = [p_1 (A + a_1) … p_K (A + a_K)] · [B + b_1; …; B + b_K],   p_k = w_k / Σ w
//
// It is exact. Its rank is K times the adapters' rank. The next version has its best approximation of that rank
// (LowRankSum), written as changes of A and of B. Other variables get the weighted mean.
#include <algorithm>
#include <cmath>
#include <vector>

#include "federated/aggregation/low_rank.h"
#include "federated/aggregation/update_spool.h"
#include "federated/aggregation/updates_rule.h"

namespace rivulet {
namespace {

// Transposes a row-major [columns, rows] matrix to a row-major [rows, columns] one.
std::vector<float> TurnedFactor(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> turned(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      turned[static_cast<size_t>(row * columns + column)] = values[static_cast<size_t>(column * rows + row)];
  return turned;
}

class Stack final : public UpdatesRule {
 public:
  explicit Stack(int64_t rank) : rank_(rank) {}

  bool reads_stored() const override { return true; }

  Status ReduceStored(const Stored& stored, std::span<float> out) const override {
    if (stored.base == nullptr || stored.base->values.size() != out.size())
      return Internal("the rule 'stack' has no base version for its updates");
    RIVULET_RETURN_IF_ERROR(Mean(stored, out));
    double all = 0, dropped = 0;
    for (const AggregationBase::Pair& pair : stored.base->pairs) {
      RIVULET_ASSIGN_OR_RETURN(const LowRankSum sum, SumOf(stored, pair));
      const int64_t rank = rank_ == 0 ? pair.rank : std::min(rank_, pair.rank);
      const LowRankSum::Factors factors = sum.CutTo(rank);
      double square = 0;
      for (int64_t r = 0; r < rank; ++r) square += SquareOf(factors, rank, r, pair);
      // The kept and the dropped share are orthogonal.
      const double whole = factors.dropped_share < 1 ? square / (1 - factors.dropped_share) : 0;
      all += whole;
      dropped += whole * factors.dropped_share;
      Write(factors, rank, pair, stored.base->values, out);
    }
    if (stored.dropped_share != nullptr) *stored.dropped_share = all > 0 ? dropped / all : 0;
    return absl::OkStatus();
  }

  void Reduce(const Columns&, std::span<float>) const override {}  // never called: the rule reads stored updates

 private:
  static StatusOr<std::vector<float>> Read(const Stored& stored, const Stored::Update& update, int64_t first,
                                           int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    RIVULET_RETURN_IF_ERROR(update.spool->Read(update.offset + first * static_cast<int64_t>(sizeof(float)),
                                               std::as_writable_bytes(std::span(values))));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] += stored.base->values[static_cast<size_t>(first + i)];
    return values;
  }

  static double TotalOf(const Stored& stored) {
    double total = 0;
    for (const Stored::Update& update : stored.updates) total += static_cast<double>(update.weight);
    return total;
  }

  // Computes the mean block by block.
  static Status Mean(const Stored& stored, std::span<float> out) {
    constexpr size_t kStretch = 1 << 16;
    const double total = TotalOf(stored);
    std::vector<float> values(std::min(kStretch, out.size()));
    for (size_t first = 0; first < out.size(); first += kStretch) {
      const size_t count = std::min(kStretch, out.size() - first);
      std::vector<double> sums(count);
      for (const Stored::Update& update : stored.updates) {
        const std::span<float> read = std::span(values).first(count);
        RIVULET_RETURN_IF_ERROR(update.spool->Read(update.offset + static_cast<int64_t>(first * sizeof(float)),
                                                   std::as_writable_bytes(read)));
        for (size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(update.weight) * static_cast<double>(read[i]);
      }
      for (size_t i = 0; i < count; ++i) out[first + i] = static_cast<float>(sums[i] / total);
    }
    return absl::OkStatus();
  }

  static StatusOr<LowRankSum> SumOf(const Stored& stored, const AggregationBase::Pair& pair) {
    const double total = TotalOf(stored);
    LowRankSum sum(pair.rows, pair.columns);
    for (const Stored::Update& update : stored.updates) {
      RIVULET_ASSIGN_OR_RETURN(std::vector<float> a, Read(stored, update, pair.a, pair.rows * pair.rank));
      RIVULET_ASSIGN_OR_RETURN(std::vector<float> b, Read(stored, update, pair.b, pair.rank * pair.columns));
      if (pair.transposed) {
        a = TurnedFactor(a, pair.rows, pair.rank);
        b = TurnedFactor(b, pair.rank, pair.columns);
      }
      sum.Add(static_cast<double>(update.weight) / total, a, b);
    }
    return sum;
  }

  // The squared singular value of column `r` of A: the norms of it and of B's row are each its root.
  static double SquareOf(const LowRankSum::Factors& factors, int64_t rank, int64_t r,
                         const AggregationBase::Pair& pair) {
    double of_a = 0, of_b = 0;
    for (int64_t row = 0; row < pair.rows; ++row) {
      const double value = factors.a[static_cast<size_t>(row * rank + r)];
      of_a += value * value;
    }
    for (int64_t column = 0; column < pair.columns; ++column) {
      const double value = factors.b[static_cast<size_t>(r * pair.columns + column)];
      of_b += value * value;
    }
    return of_a * of_b;
  }

  // Writes the changes from the base's factors to these, which fill the first `rank` columns of the base's own rank.
  static void Write(const LowRankSum::Factors& factors, int64_t rank, const AggregationBase::Pair& pair,
                    const std::vector<float>& base, std::span<float> out) {
    const auto write = [&](int64_t at, double value) {
      const auto i = static_cast<size_t>(at);
      out[i] = static_cast<float>(value - static_cast<double>(base[i]));
    };
    for (int64_t row = 0; row < pair.rows; ++row)
      for (int64_t r = 0; r < pair.rank; ++r)
        write(pair.a + (pair.transposed ? r * pair.rows + row : row * pair.rank + r),
              r < rank ? factors.a[static_cast<size_t>(row * rank + r)] : 0);
    for (int64_t r = 0; r < pair.rank; ++r)
      for (int64_t column = 0; column < pair.columns; ++column)
        write(pair.b + (pair.transposed ? column * pair.rank + r : r * pair.columns + column),
              r < rank ? factors.b[static_cast<size_t>(r * pair.columns + column)] : 0);
  }

  const int64_t rank_;
};

RIVULET_UPDATES_RULE("stack", {Float("rank", 0, "Rank of a version's adapters; 0: that of the model's.").AtLeast(0)},
                     [](const Settings& settings) -> std::unique_ptr<const UpdatesRule> {
                       return std::make_unique<Stack>(static_cast<int64_t>(settings.number("rank")));
                     });

}  // namespace
}  // namespace rivulet
