#include "client/training/device/gpu_update_pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "client/training/update_pipeline.h"
#include "engine/gpu/gpu_alignment.h"
#include "engine/kernels/cuda/clip.h"
#include "engine/kernels/cuda/noise.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

constexpr auto kNoise = static_cast<uint32_t>(Purpose::kNoise);

// The error feedback of a part from its client's last task, as the trainer's caller supplies it.
std::span<float> LeftOutBeside(const LaneTask& task, std::string_view part) {
  const auto found = std::ranges::find(task.beside, LeftOutName(part), &NamedState::name);
  return found == task.beside.end() ? std::span<float>() : found->values;
}

}  // namespace

GpuUpdatePipeline::GpuUpdatePipeline(const Plan& plan, std::span<const PartPlaces> parts, const GpuLaneMemory& memory,
                                     std::shared_ptr<GpuDevice> device)
    : parts_(parts), memory_(memory), device_(std::move(device)) {
  known_ = KnowMechanisms(plan.training().mechanisms);
  const std::vector<PartSpec>& specs = plan.aggregation().parts;
  for (const PartPlaces& part : parts_) {
    const auto spec = std::ranges::find(specs, part.name, &PartSpec::name);
    known_ = known_ && spec != specs.end();
    if (!known_) return;
    Sending& sending = sendings_.emplace_back();
    sending.spec = &*spec;
    sending.op = static_cast<uint32_t>(spec - specs.begin());
    sending.codec = GpuCodec::Of(*spec);
    known_ = sending.codec.has_value() && !spec->only_where;
  }
  if (!known_) return;
  for (Sending& sending : sendings_) {
    for (const Sending& other : sendings_) sending.first += other.op < sending.op ? other.spec->elements : 0;
    sending.apart = !noises_.empty() || keeps(sending) || !sending.codec->in_fold();
  }
  PlaceInLane();
}

// Clipping measures the trained update, so it comes first.
bool GpuUpdatePipeline::KnowMechanisms(std::span<const PieceSpec> mechanisms) {
  for (size_t i = 0; i < mechanisms.size(); ++i) {
    const SettingValues& settings = mechanisms[i].settings;
    const auto norm = settings.find("norm"), deviation = settings.find("deviation"), source = settings.find("source");
    if (mechanisms[i].name == "clip" && i == 0 && norm != settings.end()) {
      clip_ = std::get<double>(norm->second);
    } else if (mechanisms[i].name == "noise" && deviation != settings.end() && source != settings.end() &&
               std::get<std::string>(source->second) == "seeded") {
      noises_.push_back({std::get<double>(deviation->second), static_cast<uint32_t>(i)});
    } else {
      return false;
    }
  }
  return true;
}

// Some more than are needed nearly always: of a hundred pairs, 79 are within the circle.
int64_t GpuUpdatePipeline::tries() const {
  int64_t values = 0;
  for (const Sending& sending : sendings_) values += sending.spec->elements;
  const double pairs = static_cast<double>((values + 1) / 2);
  return static_cast<int64_t>(pairs * 1.2733 + 4 * std::sqrt(pairs)) + 32;
}

// One after another: squares, scratch memory of codecs and noise, and each part's vectors.
void GpuUpdatePipeline::PlaceInLane() {
  const auto place = [](size_t& end, size_t bytes) {
    const size_t at = end;
    end += GpuAligned(bytes);
    return at;
  };
  size_t squares = 0, scratch = 0;
  if (!noises_.empty()) scratch = static_cast<size_t>(gpu::NoiseChunks(tries()) + 1) * sizeof(int64_t);
  for (size_t part = 0; part < sendings_.size(); ++part) {
    for (const RunPlace& run : parts_[part].places) {
      if (clip_ > 0) squares += static_cast<size_t>(gpu::SquaresBlocks(run.count)) * sizeof(double);
    }
    scratch = std::max(scratch, sendings_[part].codec->ScratchBytes());
  }
  squares_ = place(lane_bytes_, squares);
  scratch_ = place(lane_bytes_, scratch);
  for (Sending& sending : sendings_) {
    const size_t bytes = static_cast<size_t>(sending.spec->elements) * sizeof(float);
    const size_t padded = static_cast<size_t>(sending.codec->padded_values()) * sizeof(float);
    sending.values = place(lane_bytes_, sending.apart ? padded : 0);
    sending.left_out = place(lane_bytes_, keeps(sending) ? bytes : 0);
    sending.left_out_on_host = place(host_lane_bytes_, keeps(sending) ? bytes : 0);
  }
}

Status GpuUpdatePipeline::ReserveHost(int lanes) {
  const size_t bytes = static_cast<size_t>(lanes) * host_lane_bytes_;
  if (bytes <= host_memory_.size()) return absl::OkStatus();
  host_memory_ = PinnedMemory();  // freed before the larger one is allocated
  RIVULET_ASSIGN_OR_RETURN(host_memory_, device_->AllocatePinned(bytes));
  return absl::OkStatus();
}

GpuOperand GpuUpdatePipeline::InLane(size_t place) const {
  GpuOperand operand = memory_.Lane(LaneRegion::kUpdate);
  operand.data += place;
  return operand;
}

double* GpuUpdatePipeline::Factors() const { return reinterpret_cast<double*>(memory_.Shared(SharedRegion::kFactors)); }

const gpu::Stream* GpuUpdatePipeline::Streams() const {
  return reinterpret_cast<const gpu::Stream*>(memory_.Shared(SharedRegion::kStreams));
}

float* GpuUpdatePipeline::LeftOutOnHost(const Sending& sending, int lane) const {
  return reinterpret_cast<float*>(host_memory_.data() + static_cast<size_t>(lane) * host_lane_bytes_ +
                                  sending.left_out_on_host);
}

std::vector<GpuRun> GpuUpdatePipeline::RunsOf(const PartPlaces& part) const {
  std::vector<GpuRun> runs;
  const std::span<const GpuOperand> buffers = memory_.buffers();
  for (const RunPlace& place : part.places) {
    GpuOperand values = buffers[static_cast<size_t>(place.from)];
    values.data += place.offset;
    const std::byte* const minus =
        place.less < 0 ? nullptr : buffers[static_cast<size_t>(place.less)].data + place.offset;
    runs.push_back({values, minus, place.count});
  }
  return runs;
}

// For a separately sent part, the received values; else the trained ones, on which the fold does the rest.
std::vector<GpuRun> GpuUpdatePipeline::SentRunsOf(size_t part) const {
  const Sending& sending = sendings_[part];
  if (!sending.apart) return RunsOf(parts_[part]);
  return {{InLane(sending.values), nullptr, sending.spec->elements}};
}

GpuFoldForm GpuUpdatePipeline::FormOf(size_t part) const {
  const Sending& sending = sendings_[part];
  GpuFoldForm form{.codec = sending.codec->fold()};
  if (clip_ > 0 && !sending.apart) form.factors = Factors();
  return form;
}

Status GpuUpdatePipeline::Send(std::span<const GpuLane> lanes) {
  const auto count = static_cast<int>(lanes.size());
  if (clip_ > 0) RIVULET_RETURN_IF_ERROR(MeasureNorms(count));
  for (size_t part = 0; part < sendings_.size(); ++part) {
    if (!sendings_[part].apart) continue;
    if (keeps(sendings_[part])) RIVULET_RETURN_IF_ERROR(BringLeftOut(sendings_[part], lanes));
    RIVULET_RETURN_IF_ERROR(SendValues(part, count));
  }
  RIVULET_RETURN_IF_ERROR(AddNoise(count));
  for (size_t part = 0; part < sendings_.size(); ++part) {
    if (sendings_[part].apart) RIVULET_RETURN_IF_ERROR(Encode(part, count));
  }
  return absl::OkStatus();
}

Status GpuUpdatePipeline::MeasureNorms(int lanes) {
  const gpu::Lanes all = {lanes, nullptr};
  const GpuOperand squares = InLane(squares_);
  int64_t blocks = 0;
  for (const PartPlaces& part : parts_) {
    for (const GpuRun& run : RunsOf(part)) {
      const gpu::SumSquaresArguments arguments = {
          SpanOf<const float>(run.values), reinterpret_cast<const float*>(run.minus),
          SpanOf<double>(squares, static_cast<size_t>(blocks) * sizeof(double)), run.count, all};
      RIVULET_RETURN_IF_ERROR(stream_->Launch("sum_squares", arguments));
      blocks += gpu::SquaresBlocks(run.count);
    }
  }
  return stream_->Launch("clip_factors",
                         gpu::ClipFactorsArguments{SpanOf<const double>(squares), Factors(), blocks, clip_, all});
}

// Found beside a task by its name.
Status GpuUpdatePipeline::BringLeftOut(const Sending& sending, std::span<const GpuLane> lanes) {
  const GpuOperand to = InLane(sending.left_out);
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    const std::span<const float> beside = LeftOutBeside(*lanes[lane].asked, sending.spec->name);
    if (std::ssize(beside) != sending.spec->elements) {
      return InvalidArgument("task {} has no place for the error feedback of part '{}'", lanes[lane].asked->task->id,
                             sending.spec->name);
    }
    float* const from = LeftOutOnHost(sending, static_cast<int>(lane));
    std::ranges::copy(beside, from);
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(to.data + lane * to.lane_stride, from, beside.size_bytes()));
  }
  return absl::OkStatus();
}

void GpuUpdatePipeline::TellLeftOut(const LaneTask& task, int number) const {
  for (const Sending& sending : sendings_) {
    if (!keeps(sending)) continue;
    const std::span<float> beside = LeftOutBeside(task, sending.spec->name);
    std::copy_n(LeftOutOnHost(sending, number), beside.size(), beside.begin());
  }
}

Status GpuUpdatePipeline::SendValues(size_t part, int lanes) {
  const Sending& sending = sendings_[part];
  const std::vector<GpuRun> runs = RunsOf(parts_[part]);
  size_t first = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool last = i + 1 == runs.size();
    gpu::SendValuesArguments arguments = {};
    arguments.values = SpanOf<const float>(runs[i].values);
    arguments.minus = reinterpret_cast<const float*>(runs[i].minus);
    arguments.factors = clip_ > 0 ? Factors() : nullptr;
    if (keeps(sending)) arguments.left_out = SpanOf<float>(InLane(sending.left_out), first * sizeof(float));
    arguments.to = SpanOf<float>(InLane(sending.values), first * sizeof(float));
    arguments.count = runs[i].count;
    arguments.padded = last ? sending.codec->padded_values() - static_cast<int64_t>(first) : runs[i].count;
    arguments.lanes = {lanes, nullptr};
    RIVULET_RETURN_IF_ERROR(stream_->Launch("send_values", arguments));
    first += static_cast<size_t>(runs[i].count);
  }
  return absl::OkStatus();
}

Status GpuUpdatePipeline::AddNoise(int lanes) {
  const gpu::Lanes all = {lanes, nullptr};
  for (const Noise& noise : noises_) {
    gpu::NoiseArguments arguments = {};
    arguments.counts = SpanOf<int64_t>(InLane(scratch_));
    arguments.tries = tries();
    arguments.deviation = noise.deviation;
    arguments.streams = Streams();
    arguments.purpose = kNoise;
    arguments.op = noise.op;
    arguments.lanes = all;
    RIVULET_RETURN_IF_ERROR(stream_->Launch("noise_count", arguments));
    RIVULET_RETURN_IF_ERROR(stream_->Launch(
        "codec_places", gpu::CodecPlacesArguments{arguments.counts, gpu::NoiseChunks(arguments.tries), all}));
    for (const Sending& sending : sendings_) {
      arguments.values = SpanOf<float>(InLane(sending.values));
      arguments.first = sending.first;
      arguments.count = sending.spec->elements;
      RIVULET_RETURN_IF_ERROR(stream_->Launch("noise_add", arguments));
      RIVULET_RETURN_IF_ERROR(stream_->Launch("noise_rest", arguments));
    }
  }
  return absl::OkStatus();
}

Status GpuUpdatePipeline::Encode(size_t part, int lanes) {
  const Sending& sending = sendings_[part];
  RIVULET_RETURN_IF_ERROR(sending.codec->Encode(*stream_, {.values = InLane(sending.values),
                                                           .scratch = InLane(scratch_),
                                                           .streams = Streams(),
                                                           .op = sending.op,
                                                           .lanes = lanes}));
  if (!keeps(sending)) return absl::OkStatus();
  const GpuOperand left_out = InLane(sending.left_out);
  RIVULET_RETURN_IF_ERROR(
      stream_->Launch("leave_out", gpu::LeaveOutArguments{SpanOf<const float>(InLane(sending.values)),
                                                          SpanOf<float>(left_out),
                                                          sending.spec->elements,
                                                          {lanes, nullptr}}));
  for (int lane = 0; lane < lanes; ++lane) {
    RIVULET_RETURN_IF_ERROR(stream_->ToHost(LeftOutOnHost(sending, lane),
                                            left_out.data + static_cast<size_t>(lane) * left_out.lane_stride,
                                            static_cast<size_t>(sending.spec->elements) * sizeof(float)));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
