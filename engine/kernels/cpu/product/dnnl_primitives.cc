#include "engine/kernels/cpu/product/dnnl_primitives.h"

#include <string_view>

namespace rivulet::onednn {

const dnnl::engine& Engine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

namespace {

// The library's argument objects of one instance, whose handles are updated when addresses change.
class DnnlState final : public KernelState {
 public:
  DnnlState(const std::vector<DnnlPlace>& places, const std::vector<Execution>& executions) : stream_(Engine()) {
    for (const DnnlPlace& place : places) memories_.push_back(memory(place.desc, Engine(), DNNL_MEMORY_NONE));
    handles_.resize(places.size(), nullptr);
    for (const Execution& execution : executions) {
      std::vector<dnnl_exec_arg_t> arguments;
      for (const Argument& argument : execution.arguments) {
        arguments.push_back({argument.name, memories_[argument.place].get()});
      }
      arguments_.push_back(std::move(arguments));
    }
  }
  dnnl_status_t Bind(size_t place, std::byte* address) {
    if (handles_[place] == address) return dnnl_success;
    handles_[place] = address;
    return dnnl_memory_set_data_handle(memories_[place].get(), address);
  }
  dnnl_stream_t stream() const { return stream_.get(); }
  const std::vector<dnnl_exec_arg_t>& arguments(size_t execution) const { return arguments_[execution]; }

 private:
  dnnl::stream stream_;
  std::vector<memory> memories_;
  std::vector<std::byte*> handles_;
  std::vector<std::vector<dnnl_exec_arg_t>> arguments_;
};

class DnnlKernel final : public Kernel {
 public:
  DnnlKernel(std::vector<DnnlPlace> places, std::vector<Execution> executions)
      : places_(std::move(places)), executions_(std::move(executions)) {}

  Status Run(const KernelContext& context) const override {
    DnnlState& state = static_cast<DnnlState&>(*context.state);
    for (size_t i = 0; i < places_.size(); ++i) {
      const DnnlPlace& place = places_[i];
      std::byte* address = place.from == DnnlPlace::From::kInput    ? context.inputs[place.index]
                           : place.from == DnnlPlace::From::kOutput ? context.outputs[place.index]
                                                                    : context.scratch + place.index;
      if (state.Bind(i, address) != dnnl_success) return Internal("oneDNN refused an address");
    }
    for (size_t i = 0; i < executions_.size(); ++i) {
      const std::vector<dnnl_exec_arg_t>& arguments = state.arguments(i);
      const dnnl_status_t status = dnnl_primitive_execute(executions_[i].primitive.get(), state.stream(),
                                                          static_cast<int>(arguments.size()), arguments.data());
      if (status != dnnl_success) return Internal("oneDNN failed with status {}", static_cast<int>(status));
    }
    return {};
  }
  std::unique_ptr<KernelState> NewState() const override { return std::make_unique<DnnlState>(places_, executions_); }

 private:
  std::vector<DnnlPlace> places_;
  std::vector<Execution> executions_;
};

bool Contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

Prepared Builder::Build(const std::string& implementation, double flops) && {
  Prepared prepared;
  prepared.scratch_bytes = scratch_bytes_;
  prepared.kernel = std::make_unique<DnnlKernel>(std::move(places_), std::move(executions_));
  prepared.implementation = "dnnl " + implementation;
  prepared.flops = flops;
  return prepared;
}

Type TypeOf(DType dtype) { return dtype == DType::kBFloat16 ? Type::bf16 : Type::f32; }

// The table of CPU kinds. bfloat16 is fast where the matrix unit multiplies it (AMX), and where vector instructions for
// it run at full rate: AMD's. Intel's cores without AMX are slower than for float32, and without any such instruction
// the library converts element by element.
bool IsSlow(const std::string& implementation, DType dtype) {
  if (Contains(implementation, "ref")) return true;
  if (dtype == DType::kFloat32 || Contains(implementation, "amx")) return false;
  return !Contains(implementation, "avx512_core_bf16") || !__builtin_cpu_is("amd");
}

}  // namespace rivulet::onednn
