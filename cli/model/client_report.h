// Measures of a model for each client, and their spread.
#pragma once

#include <vector>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "federated/weights/model.h"
#include "setup/client_measures.h"
#include "setup/run_setup.h"

namespace rivulet {

// Over the shares that the scenario of `setup` makes of its training data. FAILED_PRECONDITION: clients keep layers for
// themselves, so that no one model is everybody's. Others as RunSetup::shares and MeasureClients.
StatusOr<std::vector<ClientMeasures>> ReportClients(RunSetup& setup, const Model& model);

// A line a measure: mean, percentiles and worst decile over clients, as the history has them where clients measure.
// Then a line a client, of many those of the largest loss.
std::string ClientsText(const std::vector<ClientMeasures>& clients, size_t columns);
// Puts "clients", an object a client, and "spread", an object of the figures of all.
void AddClients(const std::vector<ClientMeasures>& clients, Json& json);

}  // namespace rivulet
