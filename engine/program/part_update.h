// Optional capabilities of float32 kernels that avoid a complete gradient in memory. A part of the gradient is
// computed, used by an optimiser's update while it is in the nearest cache, and overwritten by the next part
// (engine/program/update_fusion.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/program/kernel.h"

namespace rivulet {

// A kernel without scratch whose only output can be computed part by part.
class PartOutput {
 public:
  virtual ~PartOutput() = default;
  // Elements: parts start at multiples of it and have this length, except the last. 0: parts are not supported.
  virtual int64_t part_unit() const = 0;
  // Computes `count` elements, from `first` on, of the result of Run in output 0, and writes them to `to`, with the
  // same bits. The context is that of Run, without the output.
  virtual void MakePart(const KernelContext& context, int64_t first, int64_t count, float* to) const = 0;
};

// An update that changes each element of its variables by the same element of the gradient alone.
class PartUpdate {
 public:
  virtual ~PartUpdate() = default;
  // The index of the gradient among the inputs of Run; the others are scalars.
  virtual size_t gradient_input() const = 0;
  // Does the work of Run for `count` elements from `first` on, whose gradient is at `gradient`. The context is that of
  // Run, without the gradient among its inputs.
  virtual void UpdatePart(const KernelContext& context, int64_t first, int64_t count, const float* gradient) const = 0;
};

// An update in which each part follows its part of the gradient. Inputs are the gradient kernel's, then the update's
// scalars; variables are the update's; a part of the gradient is in scratch memory.
class UpdateByParts final : public Kernel {
 public:
  // `gradient` must be a PartOutput and `update` a PartUpdate, of `elements` elements.
  UpdateByParts(std::unique_ptr<const Kernel> gradient, size_t gradient_inputs, std::unique_ptr<const Kernel> update,
                int64_t elements)
      : gradient_(std::move(gradient)),
        update_(std::move(update)),
        makes_(dynamic_cast<const PartOutput&>(*gradient_)),
        uses_(dynamic_cast<const PartUpdate&>(*update_)),
        gradient_inputs_(gradient_inputs),
        elements_(elements) {}

  Status Run(const KernelContext& context) const override {
    KernelContext gradient = context, update = context;
    gradient.inputs = context.inputs.first(gradient_inputs_);
    update.inputs = context.inputs.subspan(gradient_inputs_);
    float* const part = reinterpret_cast<float*>(context.scratch);
    const int64_t unit = makes_.part_unit();
    for (int64_t first = 0; first < elements_; first += unit) {
      const int64_t count = std::min(unit, elements_ - first);
      makes_.MakePart(gradient, first, count, part);
      uses_.UpdatePart(update, first, count, part);
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<const Kernel> gradient_, update_;
  const PartOutput& makes_;
  const PartUpdate& uses_;
  size_t gradient_inputs_;
  int64_t elements_;
};

}  // namespace rivulet
