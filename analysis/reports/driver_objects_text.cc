#include "analysis/reports/driver_objects_text.h"

#include <cstdio>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string PerStep(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", number);
  return text;
}

}  // namespace

std::string PiledUpObjectsText(const Report& report) {
  std::string text;
  for (const DriverObjects& kind : report.driver_objects) {
    if (kind.piling_up) text += (text.empty() ? "" : " and ") + Grouped(kind.left()) + " " + kind.kind;
  }
  return text.empty() ? text : text + " were never destroyed";
}

std::string AdviceFor(const DriverObjects& objects) {
  if (!objects.piling_up) return "";
  if (objects.kind == "events")
    return "cudaEventDestroy each event when its time has been read, or make a few before the loop and record them "
           "again.";
  return "cudaStreamDestroy each stream when its work is done, or make a few before the loop and use them again.";
}

void WriteDriverObjects(const Report& report, TextCanvas& canvas) {
  if (PiledUpObjectsText(report).empty()) return;
  canvas.Section("DRIVER OBJECTS", PiledUpObjectsText(report));
  canvas.Paragraph(
      "The driver keeps memory of its own for each, on the host and on the device, which no call shows: it is in none "
      "of "
      "the figures above. Which line created them is not recorded.");
  for (const DriverObjects& kind : report.driver_objects) {
    if (!kind.piling_up) continue;
    canvas.Field(kind.kind,
                 Grouped(kind.created) + " created, " + Grouped(kind.destroyed) + " destroyed" +
                     (kind.left_per_step == 0 ? "" : ": " + PerStep(kind.left_per_step) + " left each step"));
    canvas.Detail("-> " + AdviceFor(kind));
  }
}

}  // namespace cuheap::analysis
