// rivulet doctor: this machine's resources and libraries, and missing parts.
#include <sys/statvfs.h>

#include <filesystem>
#include <system_error>

#include "cli/command.h"
#include "cli/doctor/build_parts.h"
#include "cli/doctor/machine.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/quantities.h"
#include "engine/base/table.h"
#include "engine/gpu/cuda_library.h"
#include "engine/gpu/gpu_device.h"
#include "engine/gpu/gpu_listing.h"
#include "engine/gpu/gpu_sum.h"
#include "engine/kernels/cpu/vector/cpu_targets.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {
namespace {

struct DoctorOptions {
  bool json = false;
};

struct Gpus {
  std::string library;  // "" if there is none
  std::string backend;
  std::vector<RivuletGpuProperties> devices;
  std::string missing;     // why there is no device, and the remedy
  std::string no_records;  // why profiles would have no kernel records; "" if they would
  std::string no_sums;     // why several GPUs add by way of the host; "" if directly
  std::vector<GpuLibrary> libraries;
};

Gpus LookForGpus() {
  Gpus gpus;
  const StatusOr<const RivuletGpuApi*> api = CudaBackend();
  if (!api.ok()) {
    gpus.missing = Message(api.status());
    return gpus;
  }
  gpus.library = GpuLibraryInUse();
  gpus.backend = (*api)->backend;
  gpus.no_records = (*api)->activity_missing();
  gpus.no_sums = GpuSumMissing(**api);
  gpus.libraries = LibrariesOf(**api);
  StatusOr<GpuListing> listing = ListGpus(**api);
  if (!listing.ok()) {
    gpus.missing = Message(listing.status());
    return gpus;
  }
  gpus.devices = std::move(listing->devices);
  gpus.missing = std::move(listing->why_none);
  return gpus;
}

struct DataFolder {
  std::string path;
  bool exists = false;
  int64_t free_bytes = 0;
};

DataFolder LookAtDataFolder() {
  std::error_code error;
  DataFolder folder;
  folder.path = std::filesystem::absolute(ShippedDataFolder(), error).lexically_normal().string();
  folder.exists = std::filesystem::is_directory(folder.path, error);
  struct statvfs system {};
  if (folder.exists && ::statvfs(folder.path.c_str(), &system) == 0) {
    folder.free_bytes = static_cast<int64_t>(system.f_bavail * system.f_frsize);
  }
  return folder;
}

std::string CoresText(const Machine& machine) {
  std::string text = fmt::format("{}", machine.allowed_cores);
  if (machine.allowed_cores != machine.cores)
    text += fmt::format(" of {} (this process may use no others)", machine.cores);
  if (machine.core_limit > 0) text += fmt::format(", for {:.3g} cores' time (control group)", machine.core_limit);
  return text;
}

std::string GpuText(const RivuletGpuProperties& gpu) {
  std::string text =
      fmt::format("{}, {} ({} free), driver {}", gpu.name, BytesText(static_cast<int64_t>(gpu.memory_bytes)),
                  BytesText(static_cast<int64_t>(gpu.free_bytes)), gpu.driver);
  if (gpu.compute_major > 0) {
    text += fmt::format(", compute capability {}.{}, {} multiprocessors", gpu.compute_major, gpu.compute_minor,
                        gpu.multiprocessors);
  }
  return text;
}

std::string ListOf(const std::vector<std::string>& names) { return names.empty() ? "nothing" : Join(names, ", "); }

void PrintText(const Machine& machine, const Gpus& gpus, const DataFolder& data) {
  Fields fields = {
      {"program", fmt::format("rivulet {}", RIVULET_VERSION)},
      {"processor", TextCell(machine.processor)},
      {"instruction sets", fmt::format("{}; kernels use {}", ListOf(machine.instruction_sets), CpuTargetName())},
      {"cores", CoresText(machine)},
      {"memory", fmt::format("{}, {} available", BytesText(machine.memory_bytes), BytesText(machine.available_bytes))},
      {"GPU library", gpus.library.empty() ? "none" : fmt::format("{} ({})", gpus.library, gpus.backend)}};
  for (size_t number = 0; number < gpus.devices.size(); ++number) {
    fields.emplace_back(fmt::format("GPU {}", number), GpuText(gpus.devices[number]));
  }
  if (gpus.devices.empty()) fields.emplace_back("GPU", fmt::format("none: {}", gpus.missing));
  if (!gpus.library.empty()) {
    for (const GpuLibrary& library : gpus.libraries) {
      fields.emplace_back(library.name, library.missing.empty() ? "found" : "none: " + library.missing);
    }
    fields.emplace_back("GPU records", gpus.no_records.empty() ? "of kernels and copies" : "none: " + gpus.no_records);
    fields.emplace_back("sums of several GPUs", gpus.no_sums.empty() ? "on the GPUs" : "on the host: " + gpus.no_sums);
  }
  fields.emplace_back("data folder",
                      data.exists ? fmt::format("{}, {} free", data.path, BytesText(data.free_bytes))
                                  : fmt::format("{}, which is not there; RIVULET_DATA names another", data.path));
  const BuildParts parts = PartsOfThisBuild();
  fields.emplace_back("built with", ListOf(parts.with));
  if (!parts.without.empty()) fields.emplace_back("built without", ListOf(parts.without));
  fmt::print("{}", FieldLines(fields));
}

void PrintJson(const Machine& machine, const Gpus& gpus, const DataFolder& data) {
  Json devices = Json::Array();
  for (const RivuletGpuProperties& gpu : gpus.devices) {
    devices.Append({{"name", gpu.name},
                    {"driver", gpu.driver},
                    {"memory_bytes", gpu.memory_bytes},
                    {"free_bytes", gpu.free_bytes},
                    {"multiprocessors", gpu.multiprocessors},
                    {"compute_capability", fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor)}});
  }
  const auto text = [](const std::string& words) { return words.empty() ? Json() : Json(words); };
  Json libraries = Json::Array();
  for (const GpuLibrary& library : gpus.libraries) {
    libraries.Append({{"name", library.name}, {"missing", text(library.missing)}});
  }
  const BuildParts parts = PartsOfThisBuild();
  const Json report = {
      {"version", RIVULET_VERSION},
      {"processor", text(machine.processor)},
      {"instruction_sets", machine.instruction_sets},
      {"kernel_instruction_set", CpuTargetName()},
      {"cores", machine.cores},
      {"allowed_cores", machine.allowed_cores},
      {"core_limit", machine.core_limit > 0 ? Json(machine.core_limit) : Json()},
      {"memory_bytes", machine.memory_bytes},
      {"available_bytes", machine.available_bytes},
      {"gpu_library", text(gpus.library)},
      {"gpu_backend", text(gpus.backend)},
      {"gpus", devices},
      {"gpu_missing", text(gpus.missing)},
      {"gpu_records_missing", text(gpus.no_records)},
      {"gpu_sums_missing", text(gpus.no_sums)},
      {"gpu_libraries", libraries},
      {"data_folder", data.path},
      {"data_folder_exists", data.exists},
      {"data_folder_free_bytes", data.exists ? Json(data.free_bytes) : Json()},
      {"built_with", parts.with},
      {"built_without", parts.without},
  };
  // Paths may be invalid UTF-8: they are repaired, as in all our JSON.
  fmt::print("{}\n", report.Dump());
}

Status Examine(const DoctorOptions& options) {
  const Machine machine = LookAtMachineParts();
  const Gpus gpus = LookForGpus();
  const DataFolder data = LookAtDataFolder();
  if (options.json) {
    PrintJson(machine, gpus, data);
  } else {
    PrintText(machine, gpus, data);
  }
  return absl::OkStatus();
}

const RegisterCommand kDoctor(94, [] {
  auto options = std::make_shared<DoctorOptions>();
  Command command{.name = "doctor",
                  .summary = "Check this machine's processor, memory, GPUs and optional parts, and print remedies.",
                  .example = "rivulet doctor"};
  command.Flag("--json", &options->json, "print one JSON object");
  command.run = [options] { return Examine(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
