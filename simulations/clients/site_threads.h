// Worker threads of a simulation in this process: sites of many clients (client/site/site.h) that train virtual clients
// for one coordinator, local or remote.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "client/calls/stop_signal.h"
#include "client/site/site.h"
#include "simulations/clients/virtual_clients.h"

namespace rivulet {

struct SiteThreadsOptions {
  int threads = 1;
  // Common options, without `attack` and the choice of sites that hold sums; several devices are used in turn. Each
  // thread has this name and a number or, if a certificate gives the name, the name alone.
  SiteOptions site;
  bool one_name = false;
  // Receives the error of a site's Run, on its thread; not after Stop.
  std::function<void(const Status&)> on_error;
};

class SiteThreads {
 public:
  // Both, and all objects that the options borrow, must outlive this.
  SiteThreads(CoordinatorApi& api, VirtualClients& clients, SiteThreadsOptions options)
      : api_(api), clients_(clients), options_(std::move(options)), stops_(static_cast<size_t>(options_.threads)) {}
  ~SiteThreads();

  void Start();  // once
  // From any thread, at any time; training threads end within a step.
  void Stop();
  // Waits until all have ended: because the run is over, by Stop, or by an error.
  void Join();

 private:
  void Work(int number, StopSignal& stop);

  CoordinatorApi& api_;
  VirtualClients& clients_;
  const SiteThreadsOptions options_;
  std::deque<StopSignal> stops_;  // per thread: over a network it also cancels single tasks
  std::vector<std::thread> threads_;
};

}  // namespace rivulet
