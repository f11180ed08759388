// A weighted sum of low-rank matrix products, stored as factors and truncated to a rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

// Σ_k w_k · A_k · B_k, A_k [rows, rank_k] and B_k [rank_k, columns], with a rank of at most Σ rank_k. Computed in
// double, one rounding per operation, in the order of the products: every machine gives the same bits.
class LowRankSum {
 public:
  LowRankSum(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}

  // Row-major, of rank a.size() / rows. Zero columns of `a` with their rows of `b` add nothing.
  void Add(double weight, std::span<const float> a, std::span<const float> b);
  int64_t rank() const { return rank_; }

  // Factors of the sum's best approximation of this rank (Eckart and Young): A = U √S and B = √S Vᵀ, padded with zeros
  // if the sum's rank is smaller. Computed by QR of both stacks and the singular values of the core.
  struct Factors {
    std::vector<double> a, b;  // [rows, rank] and [rank, columns], row-major
    double dropped_share = 0;  // share of the squared norm that was cut off
  };
  Factors CutTo(int64_t rank) const;

 private:
  const int64_t rows_, columns_;
  int64_t rank_ = 0;
  std::vector<double> left_;   // a column of `rows` values for each rank
  std::vector<double> right_;  // a row of `columns` values for each
};

}  // namespace rivulet
