#include "simulations/clients/site_threads.h"

#include <utility>

#include "engine/base/available_cores.h"
#include "engine/profile/tracer.h"

namespace rivulet {

SiteThreads::~SiteThreads() {
  Stop();
  Join();
}

void SiteThreads::Start() {
  for (StopSignal& stop : stops_) {
    threads_.emplace_back([this, number = static_cast<int>(threads_.size()), &stop] { Work(number, stop); });
  }
}

void SiteThreads::Stop() {
  for (StopSignal& stop : stops_) stop.Stop();
}

void SiteThreads::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// Sites beyond the number of processors have no partial sum: it would only cost memory.
void SiteThreads::Work(int number, StopSignal& stop) {
  SiteOptions options = options_.site;
  if (!options_.one_name) options.name += fmt::format(" {}", number);
  options.holds = number < AvailableCores();
  options.attack = clients_.attack();
  if (!options.device.team) options.device = options.device.Of(number);
  if (options.instruments.tracer != nullptr) options.instruments.tracer->NameThread(options.name);
  const Status status = Site(api_, clients_.data(), clients_.artifacts(), stop, std::move(options)).Run();
  if (!status.ok() && !stop.stopped()) options_.on_error(status);
}

}  // namespace rivulet
