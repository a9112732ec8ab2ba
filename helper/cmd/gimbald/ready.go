package main

import sd "github.com/coreos/go-systemd/v22/daemon"

// Without systemd these do nothing.

func notifyReady()    { _, _ = sd.SdNotify(false, sd.SdNotifyReady) }
func notifyStopping() { _, _ = sd.SdNotify(false, sd.SdNotifyStopping) }
func notifyAlive()    { _, _ = sd.SdNotify(false, sd.SdNotifyWatchdog) }
