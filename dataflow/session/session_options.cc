#include "dataflow/session/session_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "dataflow/placement/device_placer.h"
#include "engine/passes/pass.h"
#include "proto/graph/config.pb.h"

namespace rivulet {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kPackage = "rivulet.proto.";

const OptionRule* FindRule(std::string_view field) {
  static const auto* const rules = [] {
    auto* map = new std::map<std::string_view, const OptionRule*>();
    for (const OptionRule& rule : OptionRules()) map->emplace(rule.field, &rule);
    return map;
  }();
  const auto found = rules->find(field);
  return found == rules->end() ? nullptr : found->second;
}

// "GPUOptions.allow_growth"
std::string RuleName(const FieldDescriptor& field) { return field.full_name().substr(kPackage.size()); }

// The value of a singular field in the notation of the rules.
std::string ValueText(const Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) return "";
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::to_string(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return std::to_string(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(message, &field)->name();
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    default:
      return "";
  }
}

// Checks all set fields. `path` is the user's notation: "gpu_options.allow_growth".
Status CheckFields(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  if (!reflection.GetUnknownFields(message).empty())
    return InvalidArgument("{} has a field of number {}, which is not known; it may be of a later version",
                           message.GetDescriptor()->name(), reflection.GetUnknownFields(message).field(0).number());
  for (const FieldDescriptor* field : set) {
    const std::string name = path.empty() ? field->name() : fmt::format("{}.{}", path, field->name());
    const OptionRule* rule = FindRule(RuleName(*field));
    if (rule == nullptr) return Unimplemented("{} is not known here", name);
    if (rule->kind == OptionRule::Kind::kRefused) {
      if (!rule->allowed.empty() && ValueText(message, *field) == rule->allowed) continue;
      return Unimplemented("{} is refused: {}", name, rule->text);
    }
    if (rule->kind != OptionRule::Kind::kFields) continue;
    if (!field->is_repeated()) {
      RIVULET_RETURN_IF_ERROR(CheckFields(reflection.GetMessage(message, field), name));
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        RIVULET_RETURN_IF_ERROR(
            CheckFields(reflection.GetRepeatedMessage(message, field, i), fmt::format("{}[{}]", name, i)));
    }
  }
  return absl::OkStatus();
}

void LeaveOut(std::string_view pass, PassOptions& passes) {
  if (passes.Runs(pass)) passes.without.emplace_back(pass);
}

void LeaveOutAllBut(const std::set<std::string_view>& kept, PassOptions& passes) {
  for (const Pass& pass : Passes())
    if (pass.optional && !kept.contains(pass.name)) LeaveOut(pass.name, passes);
}

Status ReadToggle(proto::RewriterConfig::Toggle toggle, std::string_view field,
                  std::initializer_list<std::string_view> of, PassOptions& passes) {
  switch (toggle) {
    case proto::RewriterConfig::DEFAULT:
    case proto::RewriterConfig::ON:
      return absl::OkStatus();
    case proto::RewriterConfig::OFF:
      for (std::string_view pass : of) LeaveOut(pass, passes);
      return absl::OkStatus();
    default:
      return Unimplemented("graph_options.rewrite_options.{} is refused: write ON or OFF", field);
  }
}

Status ReadPasses(const proto::GraphOptions& graph, PassOptions& passes) {
  const proto::OptimizerOptions& optimizer = graph.optimizer_options();
  if (optimizer.opt_level() == proto::OptimizerOptions::L0) {
    std::set<std::string_view> kept;
    if (optimizer.do_common_subexpression_elimination()) kept.insert("common_subexpressions");
    if (optimizer.do_constant_folding()) kept.insert("fold_constants");
    LeaveOutAllBut(kept, passes);
  } else if (optimizer.opt_level() != proto::OptimizerOptions::L1) {
    return InvalidArgument("graph_options.optimizer_options.opt_level is {}; write L0 or L1",
                           static_cast<int>(optimizer.opt_level()));
  }
  if (optimizer.max_folded_constant_in_bytes() < 0)
    return InvalidArgument("graph_options.optimizer_options.max_folded_constant_in_bytes is {}",
                           optimizer.max_folded_constant_in_bytes());
  if (optimizer.max_folded_constant_in_bytes() > 0)
    passes.max_folded_bytes = static_cast<size_t>(optimizer.max_folded_constant_in_bytes());

  const proto::RewriterConfig& rewrite = graph.rewrite_options();
  RIVULET_RETURN_IF_ERROR(ReadToggle(rewrite.layout_optimizer(), "layout_optimizer", {"layout"}, passes));
  RIVULET_RETURN_IF_ERROR(ReadToggle(rewrite.constant_folding(), "constant_folding", {"fold_constants"}, passes));
  RIVULET_RETURN_IF_ERROR(ReadToggle(rewrite.shape_optimization(), "shape_optimization", {"simplify_shapes"}, passes));
  RIVULET_RETURN_IF_ERROR(ReadToggle(
      rewrite.remapping(), "remapping",
      {"fuse_products", "fuse_pooling", "fuse_normalization", "fuse_casts", "fuse_updates", "fuse_elements"}, passes));
  RIVULET_RETURN_IF_ERROR(ReadToggle(rewrite.common_subgraph_elimination(), "common_subgraph_elimination",
                                     {"common_subexpressions"}, passes));
  RIVULET_RETURN_IF_ERROR(ReadToggle(rewrite.arithmetic_optimization(), "arithmetic_optimization",
                                     {"simplify_arithmetic", "softmax_loss"}, passes));
  if (rewrite.disable_meta_optimizer()) LeaveOutAllBut({}, passes);
  return absl::OkStatus();
}

StatusOr<DevicePlacerOptions> ReadPlacement(const proto::ConfigProto& options,
                                            std::function<void(const std::string& line)> log) {
  DevicePlacerOptions placement;
  for (const auto& [type, count] : options.device_count()) {
    if (type == "CPU") {
      if (count < 1) return InvalidArgument("device_count of CPU is {}; a session needs at least 1", count);
      placement.cpus = count;
    } else if (type == "GPU") {
      if (count < 0) return InvalidArgument("device_count of GPU is {}; write how many, or 0 for none", count);
      placement.gpus = count;
    } else if (count != 0) {
      return Unimplemented("device_count of {} is {}, and sessions run on CPUs and GPUs; write 0, or leave it out",
                           type, count);
    }
  }
  placement.device_filters.assign(options.device_filters().begin(), options.device_filters().end());
  placement.allow_soft_placement = options.allow_soft_placement();
  if (options.log_device_placement()) {
    if (log == nullptr) log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
    placement.log_device_placement = std::move(log);
  }
  placement.placement_period = options.placement_period();
  placement.place_pruned_graph = options.graph_options().place_pruned_graph();
  placement.enable_bfloat16_sendrecv = options.graph_options().enable_bfloat16_sendrecv();
  placement.enable_recv_scheduling = options.graph_options().enable_recv_scheduling();
  return placement;
}

StatusOr<SessionGpus> ReadGpus(const proto::GPUOptions& options) {
  SessionGpus gpus;
  const double fraction = options.per_process_gpu_memory_fraction();
  if (fraction != 0) gpus.options.per_process_gpu_memory_fraction = fraction;
  if (!(fraction >= 0 && fraction <= 1))
    return InvalidArgument("gpu_options.per_process_gpu_memory_fraction is {}; write a part of the memory, up to 1",
                           fraction);
  gpus.options.allow_growth = options.allow_growth();
  std::string_view list = options.visible_device_list();
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    int number = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < 0)
      return InvalidArgument("gpu_options.visible_device_list has '{}'; write numbers of devices, as in '0,2'", word);
    gpus.visible.push_back(number);
  }
  return gpus;
}

StatusOr<std::chrono::milliseconds> ReadTimeout(int64_t milliseconds, std::string_view field) {
  if (milliseconds < 0)
    return InvalidArgument("{} is {}; write how many milliseconds, or 0 for no limit", field, milliseconds);
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace

StatusOr<SessionConfig> SessionConfigFrom(const proto::ConfigProto& options,
                                          std::shared_ptr<ResourceManager> shared_state,
                                          std::function<void(const std::string& line)> log) {
  RIVULET_RETURN_IF_ERROR(CheckFields(options, ""));
  SessionConfig config;
  if (!options.isolate_session_state()) config.shared_state = std::move(shared_state);
  config.inter_op_threads = options.inter_op_parallelism_threads();
  config.per_session_threads = options.use_per_session_threads();
  for (const proto::ThreadPoolOptionProto& pool : options.session_inter_op_thread_pool()) {
    if (pool.num_threads() < 0)
      return InvalidArgument("session_inter_op_thread_pool: a pool cannot have {} threads", pool.num_threads());
    config.inter_op_pools.push_back({pool.num_threads(), pool.global_name()});
  }
  RIVULET_ASSIGN_OR_RETURN(config.operation_timeout,
                           ReadTimeout(options.operation_timeout_in_ms(), "operation_timeout_in_ms"));
  const proto::GraphOptions& graph = options.graph_options();
  RIVULET_RETURN_IF_ERROR(ReadPasses(graph, config.passes));
  if (graph.build_cost_model() < 0 || graph.build_cost_model_after() < 0 || graph.timeline_step() < 0)
    return InvalidArgument(
        "graph_options: build_cost_model, build_cost_model_after and timeline_step count runs, and are not negative");
  config.build_cost_model = graph.build_cost_model();
  config.build_cost_model_after = graph.build_cost_model_after();
  config.timeline_step = graph.timeline_step();
  config.infer_shapes = graph.infer_shapes();
  RIVULET_ASSIGN_OR_RETURN(config.placement, ReadPlacement(options, std::move(log)));
  RIVULET_ASSIGN_OR_RETURN(config.gpus, ReadGpus(options.gpu_options()));
  const proto::ConfigProto::Experimental& experimental = options.experimental();
  if (experimental.executor_type() == "SINGLE_THREADED_EXECUTOR") {
    config.single_threaded = true;
  } else if (!experimental.executor_type().empty() && experimental.executor_type() != "DEFAULT") {
    return InvalidArgument("experimental.executor_type is '{}'; write DEFAULT or SINGLE_THREADED_EXECUTOR",
                           experimental.executor_type());
  }
  config.static_graph = experimental.optimize_for_static_graph();
  config.allow_partition_graphs = !experimental.disable_output_partition_graphs();
  if (experimental.has_session_metadata()) {
    config.metadata_name = experimental.session_metadata().name();
    config.metadata_version = experimental.session_metadata().version();
  }
  return config;
}

StatusOr<RunOptions> RunOptionsFrom(const proto::RunOptions& options) {
  RIVULET_RETURN_IF_ERROR(CheckFields(options, ""));
  RunOptions run;
  switch (options.trace_level()) {
    case proto::RunOptions::NO_TRACE:
      break;
    case proto::RunOptions::SOFTWARE_TRACE:
    case proto::RunOptions::FULL_TRACE:
      run.trace = true;
      break;
    default:
      return Unimplemented("trace_level HARDWARE_TRACE is refused: a CPU's trace is a software trace");
  }
  RIVULET_ASSIGN_OR_RETURN(run.timeout, ReadTimeout(options.timeout_in_ms(), "timeout_in_ms"));
  run.inter_op_pool = options.inter_op_thread_pool();
  run.output_partition_graphs = options.output_partition_graphs();
  run.report_allocations = options.report_tensor_allocations_upon_oom();
  run.use_run_handler_pool = options.experimental().use_run_handler_pool();
  run.priority = options.experimental().run_handler_pool_options().priority();
  if (run.priority != 0 && !run.use_run_handler_pool)
    return InvalidArgument(
        "experimental.run_handler_pool_options.priority means nothing without experimental.use_run_handler_pool");
  return run;
}

}  // namespace rivulet
