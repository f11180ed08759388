// Ranks that are threads of one process, on one machine.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "simulations/launchers/ranks.h"

namespace rivulet::testing {

// Collective operations use one barrier.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), all_(size), parts_(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<One>(*this, rank));
  }
  Ranks& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

 private:
  class One final : public Ranks {
   public:
    One(ThreadRanks& of, int rank) : of_(of), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return of_.size_; }
    int local() const override { return of_.size_; }
    int local_rank() const override { return rank_; }
    void Broadcast(std::string& bytes) override {
      if (rank_ == 0) of_.parts_[0] = bytes;
      of_.all_.arrive_and_wait();
      bytes = of_.parts_[0];
      of_.all_.arrive_and_wait();
    }
    std::string Scatter(const std::vector<std::string>& parts) override {
      if (rank_ == 0) of_.parts_ = parts;
      of_.all_.arrive_and_wait();
      const std::string own = of_.parts_[static_cast<size_t>(rank_)];
      of_.all_.arrive_and_wait();
      return own;
    }
    std::vector<std::string> Gather(const std::string& bytes) override {
      of_.parts_[static_cast<size_t>(rank_)] = bytes;
      of_.all_.arrive_and_wait();
      std::vector<std::string> all = rank_ == 0 ? of_.parts_ : std::vector<std::string>();
      of_.all_.arrive_and_wait();
      return all;
    }
    void Sum(std::span<int64_t> sums) override { SumAs(sums); }
    void Sum(std::span<int32_t> sums) override { SumAs(sums); }

   private:
    template <typename T>
    void SumAs(std::span<T> sums) {
      using U = std::make_unsigned_t<T>;
      const auto all = Gather(std::string(reinterpret_cast<const char*>(sums.data()), sums.size_bytes()));
      for (size_t rank = 1; rank < all.size(); ++rank) {
        ASSERT_EQ(all[rank].size(), sums.size_bytes());
        for (size_t i = 0; i < sums.size(); ++i) {
          T other;
          std::memcpy(&other, all[rank].data() + i * sizeof(T), sizeof(T));
          sums[i] = static_cast<T>(static_cast<U>(sums[i]) + static_cast<U>(other));
        }
      }
    }
    ThreadRanks& of_;
    const int rank_;
  };

  const int size_;
  std::barrier<> all_;
  std::vector<std::string> parts_;
  std::vector<std::unique_ptr<One>> ranks_;
};

}  // namespace rivulet::testing
