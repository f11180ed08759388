// [devices]: properties of a simulation's devices; with any of them, the simulation has virtual time.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {

std::vector<Key> DevicesKeys() {
  return {
      Key("devices.compute", RIVULET_FIELD(devices.compute), "\"lognormal(2e9, 0.5)\"",
          "Floating-point operations of a device in a second, by a law of chance. Laws: a number, in quotes or not; "
          "`uniform(LEAST, MOST)`; `lognormal(MEDIAN, DEVIATION)`, the deviation of its logarithm; "
          "`half_normal(SCALE)`, the size of a normal draw of deviation SCALE; `exponential(MEAN)`. Each client's is "
          "drawn once, by `run.seed`. A task takes the operations that are planned for its examples. "
          "[simulating](../guide/simulate.md) says more.")
          .Default("computing takes no time")
          .Law()
          .OrNone(),
      Key("devices.download", RIVULET_FIELD(devices.download), "\"uniform(1e6, 8e6)\"",
          "Bytes of a model that a device receives in a second; a law, drawn once for each client.")
          .Default("receiving takes no time")
          .Law()
          .OrNone(),
      Key("devices.upload", RIVULET_FIELD(devices.upload), "\"uniform(2e5, 1e6)\"",
          "Bytes of an update that a device sends in a second; a law, drawn once for each client.")
          .Default("sending takes no time")
          .Law()
          .OrNone(),
      Key("devices.delay", RIVULET_FIELD(devices.delay), "\"half_normal(60)\"",
          "Seconds that a task takes beside computing, receiving and sending; a law, drawn for each task.")
          .Default("none")
          .Law()
          .OrNone(),
      Key("devices.failure", RIVULET_FIELD(devices.failure), "\"exponential(600)\"",
          "Seconds of work after which a device disconnects without notice; a law, drawn for each task. One that would "
          "have taken longer is lost: it is noticed `server.lease` later, and another client is selected.")
          .Default("none goes away")
          .Law()
          .OrNone(),
      Key("devices.availability", RIVULET_FIELD(devices.availability), "\"uniform(0.2, 0.6)\"",
          "Share of `devices.period` in which a device is there; a law, drawn once for each client, as is when in the "
          "period that begins. Others are not drawn, and one whose time ends has gone away.")
          .Default("all are there")
          .Law()
          .OrNone(),
      Key("devices.period", RIVULET_FIELD(devices.period_seconds), "3600.0",
          "Seconds after which a device's availability, and `devices.trace`, start over.")
          .Above(0)
          .Below(1e9)
          .When(
              "devices.availability",
              [](const Scenario& s) { return !s.devices.availability.empty() || !s.devices.trace.empty(); },
              "devices.availability or devices.trace is given"),
      Key("devices.server", RIVULET_FIELD(devices.server), "\"uniform(2, 5)\"",
          "Seconds in which the server makes and measures a version; a law, drawn for each version. Meanwhile no task "
          "starts.")
          .Default("versions are there at once")
          .Law()
          .OrNone(),
      Key("devices.trace", RIVULET_FIELD(devices.trace), "\"devices.csv\"",
          "A CSV file of the presence of devices, in the place of the laws. A line has a client's name, the seconds "
          "from and until, and optionally operations a second and bytes a second down and up. A client without a line "
          "follows `devices.availability`.")
          .Path()
          .Default("none")
          .OrNone(),
  };
}

}  // namespace rivulet::scenario
