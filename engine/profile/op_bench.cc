#include "engine/profile/op_bench.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "engine/base/json.h"
#include "engine/compile/compile.h"
#include "engine/kernels/cpu/vector/cpu_targets.h"
#include "engine/profile/instruction_costs.h"
#include "engine/profile/op_bench_values.h"
#include "engine/profile/run_recorder.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/kernel_alternatives.h"
#include "engine/program/program.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

constexpr double kMeasuredSeconds = 0.3;
constexpr int kFewestRuns = 5, kMostRuns = 20000;
constexpr const char* kTargets[] = {"avx512", "avx2", "sse4", "none"};

double Median(std::vector<int64_t> nanos) {
  const auto middle = nanos.begin() + static_cast<std::ptrdiff_t>(nanos.size() / 2);
  std::nth_element(nanos.begin(), middle, nanos.end());
  return static_cast<double>(*middle) * 1e-9;
}

// Calls `run`, which gives the nanoseconds of one run, often enough.
Status Measure(const std::function<StatusOr<int64_t>()>& run, OpTiming& timing) {
  RIVULET_RETURN_IF_ERROR(run().status());  // warms up
  std::vector<int64_t> nanos;
  const int64_t end = ProfileNanos() + static_cast<int64_t>(kMeasuredSeconds * 1e9);
  while (static_cast<int>(nanos.size()) < kFewestRuns ||
         (ProfileNanos() < end && static_cast<int>(nanos.size()) < kMostRuns)) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t one, run());
    nanos.push_back(one);
  }
  timing.runs = static_cast<int64_t>(nanos.size());
  timing.seconds = Median(std::move(nanos));
  return absl::OkStatus();
}

struct Memory {
  std::vector<AlignedBuffer> buffers;
  std::byte* Add(const TensorSpec& spec, size_t seed) {
    buffers.emplace_back(std::max<size_t>(TensorBytes(spec), 1));
    MakeUpValues(spec.dtype, buffers.back().data(), spec.shape.elements(), seed);
    return buffers.back().data();
  }
};

// Through a program of one node, as sessions and trainers run it; timed around the kernel itself.
StatusOr<OpTiming> TimeProgram(const OpBenchGraph& bench, const KernelPolicy& policy) {
  EnterWorkerThread();
  OpTiming timing;
  const Signature signature = OpBenchSignature(bench);
  Memory memory;
  std::vector<TensorView> feeds, fetches;
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < signature.feeds.size(); ++i) {
    const TensorSpec& spec = signature.feeds[i].spec;
    feeds.push_back({memory.Add(spec, i), spec.dtype, spec.shape});
  }
  for (size_t i = 0; i < bench.variables.size(); ++i)
    buffers.push_back({memory.Add(bench.variables[i], kVariableSeed + i), bench.variables[i].dtype});
  CompileOptions options = OpBenchCompileOptions();
  options.kernels = policy;
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(bench.graph, signature, options));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  for (const TensorSpec& spec : program->fetch_specs())
    fetches.push_back(
        {memory.Add({DType::kUint8, Shape({static_cast<int64_t>(std::max<size_t>(TensorBytes(spec), 1))})}, 0),
         spec.dtype, spec.shape});
  RIVULET_ASSIGN_OR_RETURN(AlignedBuffer arena, AlignedBuffer::Create(program->memory().arena_bytes));
  const std::vector<InstructionCost> costs = CostsOf(*program);
  for (size_t i = 0; i < costs.size(); ++i) {
    const Instruction& instruction = program->instructions()[i];
    if (instruction.node != bench.node->name() || instruction.implementation == "fetch") continue;
    timing.implementation = instruction.implementation;
    timing.kernel = costs[i].kernel;
    timing.flops += costs[i].flops;
    timing.bytes += costs[i].bytes;
  }
  if (timing.implementation.empty()) {
    timing.skipped = "a program carries it out without a kernel: it is a view, or its value is known before the run";
    return timing;
  }
  RunRecorder recorder(64);
  StreamKey stream;
  uint64_t step = 0;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = buffers;
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.rng = {&stream, 1};
  bindings.step = {&step, 1};
  bindings.observer = &recorder;
  const auto run = [&]() -> StatusOr<int64_t> {
    recorder.Clear();
    RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
    int64_t nanos = 0;
    for (const InstructionSpan& span : recorder.spans()) {
      const Instruction& instruction = program->instructions()[static_cast<size_t>(span.instruction)];
      if (span.parent < 0 && instruction.node == bench.node->name() && instruction.implementation != "fetch")
        nanos += span.end - span.begin;
    }
    return nanos;
  };
  // Keep the first run's outputs: variables change with further runs.
  RIVULET_RETURN_IF_ERROR(run().status());
  for (const TensorView& fetch : fetches) AppendFloats(fetch, timing.outputs);
  for (size_t i = 0; i < buffers.size(); ++i)
    AppendFloats({buffers[i].data, bench.variables[i].dtype, bench.variables[i].shape}, timing.outputs);
  RIVULET_RETURN_IF_ERROR(Measure(run, timing));
  return timing;
}

// A kernel that no program uses, with separate memory.
StatusOr<OpTiming> TimeAlternative(const OpBenchGraph& bench, const PrepareFn& prepare) {
  EnterWorkerThread();
  OpTiming timing;
  Memory memory;
  std::vector<TensorSpec> specs;
  std::vector<const Tensor*> constants;
  std::vector<std::byte*> inputs, outputs;
  size_t fed = 0;
  for (const Output& input : bench.node->inputs()) {
    const TensorSpec spec{input.dtype(), input.shape()};
    specs.push_back(spec);
    const Tensor* value = input.node->FindAttr<Tensor>("value");
    constants.push_back(value);
    inputs.push_back(value == nullptr ? memory.Add(spec, fed++) : const_cast<std::byte*>(value->data()));
    timing.bytes += static_cast<double>(TensorBytes(spec));
  }
  std::vector<TensorSpec> made(bench.node->outputs().begin(), bench.node->outputs().end());
  std::vector<TensorView> views;
  for (const TensorSpec& spec : made) {
    outputs.push_back(memory.Add(spec, 0));
    views.push_back({outputs.back(), spec.dtype, spec.shape});
    timing.bytes += static_cast<double>(TensorBytes(spec));
  }
  const StatusOr<Prepared> prepared = prepare(NodeView{*bench.node, specs, made, {}, constants}, KernelPolicy());
  if (!prepared.ok()) {
    timing.skipped = std::string(Message(prepared.status()));
    return timing;
  }
  timing.implementation = prepared->implementation;
  timing.flops = prepared->flops;
  RIVULET_ASSIGN_OR_RETURN(AlignedBuffer scratch, AlignedBuffer::Create(std::max<size_t>(prepared->scratch_bytes, 1)));
  const std::unique_ptr<KernelState> state = prepared->kernel->NewState();
  KernelContext context;
  context.inputs = inputs;
  context.outputs = outputs;
  context.scratch = scratch.data();
  context.state = state.get();
  const auto run = [&]() -> StatusOr<int64_t> {
    const int64_t begin = ProfileNanos();
    RIVULET_RETURN_IF_ERROR(prepared->kernel->Run(context));
    return ProfileNanos() - begin;
  };
  RIVULET_RETURN_IF_ERROR(run().status());
  for (const TensorView& view : views) AppendFloats(view, timing.outputs);
  RIVULET_RETURN_IF_ERROR(Measure(run, timing));
  return timing;
}

StatusOr<OpTiming> TimeHere(const OpBenchGraph& bench, const std::string& algorithm) {
  if (algorithm == "native") return TimeProgram(bench, {});
  if (algorithm == "portable") return TimeProgram(bench, {.portable = true});
  for (const char* target : kTargets) {
    if (algorithm != target) continue;
    RIVULET_RETURN_IF_ERROR(RestrictCpuTargets(algorithm));
    return TimeProgram(bench, {});
  }
  for (const auto* alternative : KernelAlternatives::Global().Of(bench.node->type(), KernelDType(*bench.node)))
    if (alternative->name == algorithm) return TimeAlternative(bench, alternative->prepare);
  return Internal("no algorithm '{}'", algorithm);
}

// From the measuring process: JSON on one line, then the outputs' bytes.
std::string Packed(const StatusOr<OpTiming>& timing) {
  if (!timing.ok()) {
    const Json error = {{"error", Message(timing.status())}, {"code", static_cast<int>(timing.status().code())}};
    return error.Dump() + "\n";
  }
  const Json json = {{"implementation", timing->implementation},
                     {"kernel", timing->kernel},
                     {"skipped", timing->skipped},
                     {"runs", timing->runs},
                     {"seconds", timing->seconds},
                     {"flops", timing->flops},
                     {"bytes", timing->bytes}};
  std::string text = json.Dump() + "\n";
  text.append(reinterpret_cast<const char*>(timing->outputs.data()), timing->outputs.size() * sizeof(float));
  return text;
}

StatusOr<OpTiming> Unpacked(const std::string& text) {
  const size_t line = text.find('\n');
  const StatusOr<Json> json = Json::Parse(std::string_view(text).substr(0, line));
  if (line == std::string::npos || !json.ok() || !json->IsObject()) return Internal("the measuring process died");
  if (json->Contains("error"))
    return Status(static_cast<absl::StatusCode>(json->At("code").integer()), json->At("error").text());
  OpTiming timing;
  timing.implementation = json->At("implementation").text();
  timing.kernel = json->At("kernel").text();
  timing.skipped = json->At("skipped").text();
  timing.runs = json->At("runs").integer();
  timing.seconds = json->At("seconds").number();
  timing.flops = json->At("flops").number();
  timing.bytes = json->At("bytes").number();
  timing.outputs.resize((text.size() - line - 1) / sizeof(float));
  std::memcpy(timing.outputs.data(), text.data() + line + 1, timing.outputs.size() * sizeof(float));
  return timing;
}

}  // namespace

bool IsInstructionSet(const std::string& algorithm) {
  return std::find(std::begin(kTargets), std::end(kTargets), std::string_view(algorithm)) != std::end(kTargets);
}

std::vector<std::string> AlgorithmsFor(const OpBenchGraph& bench) {
  std::vector<std::string> names = {"native"};
  for (const auto* alternative : KernelAlternatives::Global().Of(bench.node->type(), KernelDType(*bench.node)))
    names.push_back(alternative->name);
  names.emplace_back("portable");
  for (const char* target : kTargets) names.emplace_back(target);
  return names;
}

StatusOr<OpTiming> TimeAlgorithm(const OpBenchGraph& bench, const std::string& algorithm) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Internal("cannot make a pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return Internal("cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    // A measurement that nobody waits for holds a core, and the caller's standard output, for nothing.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before the line above
    std::string text = Packed(TimeHere(bench, algorithm));
    std::string_view rest = text;
    while (!rest.empty()) {
      const ssize_t written = write(ends[1], rest.data(), rest.size());
      if (written < 0 && errno != EINTR) break;
      if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  for (;;) {
    char bytes[65536];
    const ssize_t got = read(ends[0], bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(bytes, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  StatusOr<OpTiming> timing = Unpacked(text);
  if (timing.ok()) timing->algorithm = algorithm;
  return timing;
}

}  // namespace rivulet
