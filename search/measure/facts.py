"""What the attached card says of itself, and its state beside a sample. Reads only: no setting is ever changed."""

from __future__ import annotations

import os
from typing import Any

from fusetune.launch import device_attribute, device_memory_bytes, device_name, device_uuid, driver_version
from search.measure.device import CardFacts

_MHZ = 1000  # kHz, the driver's unit


def read_facts(index: int) -> CardFacts:
    """Facts of device `index` from the driver, and from NVML where it answers. Raises NoDevice."""
    driver, nvml = driver_version(), Nvml(index)
    return CardFacts(
        name=device_name(index),
        capability=(
            device_attribute(index, "COMPUTE_CAPABILITY_MAJOR"),
            device_attribute(index, "COMPUTE_CAPABILITY_MINOR"),
        ),
        sm_count=device_attribute(index, "MULTIPROCESSOR_COUNT"),
        max_sm_clock_mhz=nvml.max_clock_mhz("SM") or device_attribute(index, "CLOCK_RATE") // _MHZ,
        max_memory_clock_mhz=nvml.max_clock_mhz("MEM") or device_attribute(index, "MEMORY_CLOCK_RATE") // _MHZ,
        memory_bytes=device_memory_bytes(index),
        l2_bytes=device_attribute(index, "L2_CACHE_SIZE"),
        power_w=nvml.power_limit_w() or 0,
        driver=nvml.driver or f"CUDA {driver}",
        clock_limit_mhz=nvml.clock_limit_mhz() or 0,
    )


class Nvml:
    """The card's entry in NVML. Where the library or a query is missing, answers None, and `why_not` says so."""

    def __init__(self, index: int) -> None:
        self.why_not = ""
        self.driver = ""
        self._handle: Any = None
        try:
            import pynvml

            self._nvml: Any = pynvml
            pynvml.nvmlInit()
            self.driver = pynvml.nvmlSystemGetDriverVersion()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{device_uuid(index)}")
        except ImportError:
            self.why_not = "the package nvidia-ml-py is not installed"
        except self._nvml.NVMLError as error:
            self.why_not = str(error)

    def max_clock_mhz(self, which: str) -> int | None:
        """`SM` or `MEM`."""
        clock = self._ask("nvmlDeviceGetMaxClockInfo", self._constant(f"NVML_CLOCK_{which}"))
        return None if clock is None else int(clock)

    def clock_limit_mhz(self) -> int | None:
        """What the SM clock may reach as the card is set up now: application clocks and locked clocks lower it."""
        limits = [self.max_clock_mhz("SM")]
        for kind in ("APP_CLOCK_TARGET", "CUSTOMER_BOOST_MAX"):
            limits.append(
                self._ask(
                    "nvmlDeviceGetClock", self._constant("NVML_CLOCK_SM"), self._constant(f"NVML_CLOCK_ID_{kind}")
                )
            )
        known = [int(limit) for limit in limits if limit]
        return min(known, default=None)

    def power_limit_w(self) -> int | None:
        """The limit in force."""
        milliwatts = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else round(milliwatts / 1000)

    def state(self) -> dict[str, Any]:
        """Clocks, power, temperature, throttle reasons and other processes now, to stand beside a sample."""
        if self._handle is None:
            return {"nvml": self.why_not}
        power = self._ask("nvmlDeviceGetPowerUsage")
        found = {
            "sm_clock_mhz": self._ask("nvmlDeviceGetClockInfo", self._constant("NVML_CLOCK_SM")),
            "memory_clock_mhz": self._ask("nvmlDeviceGetClockInfo", self._constant("NVML_CLOCK_MEM")),
            "power_w": None if power is None else power / 1000,
            "temperature_c": self._ask("nvmlDeviceGetTemperature", self._constant("NVML_TEMPERATURE_GPU")),
            "throttle_reasons": self._ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
            "other_processes": self._other_processes(),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _other_processes(self) -> int | None:
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if processes is None else sum(process.pid != os.getpid() for process in processes)

    def _constant(self, name: str) -> Any:
        return getattr(self._nvml, name, None) if self._handle is not None else None

    def _ask(self, function: str, *args: Any) -> Any:
        if self._handle is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *args)
        except self._nvml.NVMLError:  # not every card and driver answers every query
            return None
