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
  // What they have in common; `attack`, and which of them hold, is not asked; several devices they take in turn. Each
  // is called by this name and a number, or, where a certificate says it, by the name alone.
  SiteOptions site;
  bool one_name = false;
  // The error of a site's Run, from its thread; not after Stop.
  std::function<void(const Status&)> on_error;
};

class SiteThreads {
 public:
  // Both, and everything that the options borrow, must outlive this.
  SiteThreads(CoordinatorApi& api, VirtualClients& clients, SiteThreadsOptions options)
      : api_(api), clients_(clients), options_(std::move(options)), stops_(static_cast<size_t>(options_.threads)) {}
  ~SiteThreads();

  void Start();  // once
  // From any thread, whenever; those that train end within a step.
  void Stop();
  // Until all have ended: because the run is over, or by Stop or an error.
  void Join();

 private:
  void Work(int number, StopSignal& stop);

  CoordinatorApi& api_;
  VirtualClients& clients_;
  const SiteThreadsOptions options_;
  std::deque<StopSignal> stops_;  // a thread's own: over a network it ends a single task too
  std::vector<std::thread> threads_;
};

}  // namespace rivulet
