// A weighted sum of matrix products of low rank, kept as factors and cut to a rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

// Σ_k w_k · A_k · B_k, A_k [rows, rank_k] and B_k [rank_k, columns], which has the rank Σ rank_k at most. In double,
// one rounding per operation, in the order of the products: equal on every machine.
class LowRankSum {
 public:
  LowRankSum(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}

  // Row-major, of rank a.size() / rows. Columns of `a` and rows of `b` that are zero add nothing.
  void Add(double weight, std::span<const float> a, std::span<const float> b);
  int64_t rank() const { return rank_; }

  // Two factors of the sum's best approximation of this rank (Eckart and Young): A = U √S and B = √S Vᵀ, padded with
  // zeros where the sum has a smaller one. By QR of both stacks and the singular values of the core.
  struct Factors {
    std::vector<double> a, b;  // [rows, rank] and [rank, columns], row-major
    double dropped_share = 0;  // of the squared norm, cut off
  };
  Factors CutTo(int64_t rank) const;

 private:
  const int64_t rows_, columns_;
  int64_t rank_ = 0;
  std::vector<double> left_;   // a column of `rows` values for each rank
  std::vector<double> right_;  // a row of `columns` values for each
};

}  // namespace rivulet
