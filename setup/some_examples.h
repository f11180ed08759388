// A subset of a data set's examples, as a data set: one client's share, or held-out examples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/dataset.h"

namespace rivulet {

// `examples`: indices into `all`, in reading order. Immutable, thread-safe if `all` is.
class SomeExamples final : public Dataset {
 public:
  SomeExamples(std::shared_ptr<const Dataset> all, std::vector<uint32_t> examples)
      : all_(std::move(all)), examples_(std::move(examples)) {}
  int64_t size() const override { return std::ssize(examples_); }
  Status Read(int64_t index, std::string& buffer) const override { return all_->Read(At(index), buffer); }
  std::string Where(int64_t index) const override { return all_->Where(At(index)); }

 private:
  int64_t At(int64_t index) const { return examples_[static_cast<size_t>(index)]; }
  const std::shared_ptr<const Dataset> all_;
  const std::vector<uint32_t> examples_;
};

}  // namespace rivulet
