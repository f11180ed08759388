// A kernel that is a sequence of oneDNN primitives, with the tensors and scratch memory that each reads and writes.
// Prepared once and shared by all threads. The only header that includes oneDNN, for dnnl_product.cc and
// dnnl_convolution.cc.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/kernel.h"
#include "engine/program/memory_plan.h"

namespace rivulet::onednn {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

const dnnl::engine& Engine();

// One execution of a primitive: the memory for each argument.
struct Argument {
  int name;      // DNNL_ARG_…
  size_t place;  // index in the kernel's memories
};
struct Execution {
  dnnl::primitive primitive;
  std::vector<Argument> arguments;
};

// Place of a memory's bytes in a run.
struct DnnlPlace {
  enum class From { kInput, kOutput, kScratch };
  memory::desc desc;
  From from;
  size_t index;  // of the input or output, or offset into the scratch
};

// Collects places and primitives of one kernel.
class Builder {
 public:
  Builder() { attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user); }
  const dnnl::primitive_attr& attributes() const { return attributes_; }
  dnnl::primitive_attr& attributes() { return attributes_; }

  size_t Input(size_t index, const memory::desc& desc) { return Add({desc, DnnlPlace::From::kInput, index}); }
  size_t Output(size_t index, const memory::desc& desc) { return Add({desc, DnnlPlace::From::kOutput, index}); }
  size_t Scratch(const memory::desc& desc) {
    const size_t offset = scratch_bytes_;
    scratch_bytes_ += RoundUp64(desc.get_size());
    return Add({desc, DnnlPlace::From::kScratch, offset});
  }
  template <typename Primitive, typename Descriptor>
  void Execute(const Descriptor& descriptor, std::vector<Argument> arguments) {
    const memory::desc scratchpad = descriptor.scratchpad_desc();
    if (scratchpad.get_size() > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, Scratch(scratchpad)});
    executions_.push_back({Primitive(descriptor), std::move(arguments)});
  }
  // `place` in the layout `wanted`: itself, or a copy in scratch.
  size_t Reordered(size_t place, const memory::desc& wanted) {
    if (places_[place].desc == wanted) return place;
    const size_t copy = Scratch(wanted);
    Reorder(place, copy);
    return copy;
  }
  void Reorder(size_t from, size_t to) {
    const dnnl::reorder::primitive_desc descriptor(Engine(), places_[from].desc, Engine(), places_[to].desc,
                                                   attributes_);
    Execute<dnnl::reorder>(descriptor, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  Prepared Build(const std::string& implementation, double flops) &&;

 private:
  size_t Add(DnnlPlace place) {
    places_.push_back(std::move(place));
    return places_.size() - 1;
  }
  dnnl::primitive_attr attributes_;
  std::vector<DnnlPlace> places_;
  std::vector<Execution> executions_;
  size_t scratch_bytes_ = 0;
};

// kBFloat16 or kFloat32.
Type TypeOf(DType dtype);

// Returns true if the implementation chosen by the library, by its name, is slower than Rivulet's or than float32.
bool IsSlow(const std::string& implementation, DType dtype);

}  // namespace rivulet::onednn
