{{/* The flags of `tf-operator run`, as docs/operations.md lists them; every value that has a flag becomes an argument. */}}
{{- define "tf-operator.arguments" -}}
{{- range .Values.watch.namespaces }}
- --namespace={{ . }}
{{- end }}
{{- $more := list -}}
{{- if .Values.apis.mlkube.enabled }}{{ $more = append $more "TfJob.mlkube.io" }}{{ end -}}
{{- if .Values.apis.t9k.enabled }}{{ $more = append $more "TensorFlowTrainingJob" }}{{ end -}}
{{- if $more }}
{{- range prepend $more "TFJob" }}
- --enable-scheme={{ . }}
{{- end }}
{{- end }}
{{- if ne .Values.apis.tensorboards "none" }}
- --tensorboards={{ .Values.apis.tensorboards }}
{{- end }}
{{- if .Values.elastic.horizontalPodAutoscalers }}
- --horizontal-pod-autoscalers=true
{{- end }}
{{- if ne .Values.networkPolicy.jobs "none" }}
- --network-policies={{ .Values.networkPolicy.jobs }}
{{- end }}
{{- if .Values.elastic.restartInPlace }}
- --restart-in-place=true
{{- end }}
{{- if include "tf-operator.config" . }}
- --controller-config-file={{ .Values.config.file }}
{{- end }}
{{- if ne .Values.apis.kubeflow.v1alpha1ExitCodes "default" }}
- --v1alpha1-exit-codes={{ .Values.apis.kubeflow.v1alpha1ExitCodes }}
{{- end }}
{{- with .Values.controller }}
- --controller-threads={{ int .workers }}
{{- with .gangSchedulerName }}
- --gang-scheduler-name={{ . }}
{{- end }}
{{- if .jobQueue.enabled }}
- --job-queue
- --job-queue-shrink-after={{ .jobQueue.shrinkAfter }}
- --job-queue-grow-after={{ .jobQueue.growAfter }}
- --job-queue-resize-interval={{ .jobQueue.resizeInterval }}
- --job-queue-reserve-after={{ .jobQueue.reserveAfter }}
{{- end }}
{{- with .gangSchedulersByJob }}
- --gang-schedulers-by-job={{ join "," . }}
{{- end }}
{{- if ne .kueue "none" }}
- --kueue={{ .kueue }}
{{- end }}
- --override-existing-controller={{ .overrideExisting }}
- --drain-timeout={{ .drainTimeout }}
- --restart-delay-base={{ .restartDelay.base }}
- --restart-delay-cap={{ .restartDelay.cap }}
- --restart-delay-reset={{ .restartDelay.resetAfter }}
{{- end }}
- --kube-api-qps={{ .Values.kubeApi.qps }}
- --kube-api-burst={{ int .Values.kubeApi.burst }}
- --leader-elect={{ .Values.leaderElection.enabled }}
{{- if .Values.leaderElection.enabled }}
- --leader-election-id={{ include "tf-operator.leaseName" . }}
- --leader-election-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-election-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-election-retry-period={{ .Values.leaderElection.retryPeriod }}
{{- end }}
- --metrics-bind-address={{ ternary (printf ":%d" (int .Values.metrics.port)) "0" .Values.metrics.enabled }}
{{- with .Values.metrics }}
{{- if and .enabled .secure.enabled }}
- --metrics-secure=true
{{- if .secure.certificateSecret }}
- --metrics-cert-path=/etc/tf-operator/metrics-certificate
{{- end }}
{{- end }}
{{- end }}
- --health-probe-bind-address=:{{ int .Values.health.port }}
{{- if .Values.apis.kubeflow.oldVersions }}
- --conversion-webhook-bind-address=:{{ int .Values.apis.webhook.port }}
- --conversion-webhook-versions={{ join "," .Values.apis.kubeflow.oldVersions }}
{{- if include "tf-operator.webhookCertificate" . }}
- --conversion-webhook-cert-path=/etc/tf-operator/webhook-certificate
{{- else }}
- --conversion-webhook-secret={{ include "tf-operator.webhookSecret" . }}
- --conversion-webhook-host={{ include "tf-operator.webhookService" . }}.{{ .Release.Namespace }}.svc
{{- end }}
{{- end }}
{{- if .Values.progress.enabled }}
- --progress-bind-address=:{{ int .Values.progress.port }}
- --progress-url=https://{{ include "tf-operator.progressHost" . }}
- --progress-cert-path=/etc/tf-operator/progress-certificate
{{- end }}
- --log-format={{ .Values.logs.format }}
- --log-level={{ .Values.logs.level }}
- --log-ended-jobs={{ .Values.logs.endedJobs }}
{{- end -}}

{{/* The value that stands for each flag, for who tries to set it beside the chart. */}}
{{- define "tf-operator.valuesOfFlags" -}}
namespace: watch.namespaces
enable-scheme: apis
tensorboards: apis.tensorboards
horizontal-pod-autoscalers: elastic.horizontalPodAutoscalers
network-policies: networkPolicy.jobs
restart-in-place: elastic.restartInPlace
controller-config-file: config
v1alpha1-exit-codes: apis.kubeflow.v1alpha1ExitCodes
controller-threads: controller.workers
gang-scheduler-name: controller.gangSchedulerName
job-queue: controller.jobQueue.enabled
job-queue-shrink-after: controller.jobQueue.shrinkAfter
job-queue-grow-after: controller.jobQueue.growAfter
job-queue-resize-interval: controller.jobQueue.resizeInterval
job-queue-reserve-after: controller.jobQueue.reserveAfter
gang-schedulers-by-job: controller.gangSchedulersByJob
kueue: controller.kueue
override-existing-controller: controller.overrideExisting
drain-timeout: controller.drainTimeout
restart-delay-base: controller.restartDelay.base
restart-delay-cap: controller.restartDelay.cap
restart-delay-reset: controller.restartDelay.resetAfter
kube-api-qps: kubeApi.qps
kube-api-burst: kubeApi.burst
leader-elect: leaderElection.enabled
leader-election-id: leaderElection.leaseName
leader-election-lease-duration: leaderElection.leaseDuration
leader-election-renew-deadline: leaderElection.renewDeadline
leader-election-retry-period: leaderElection.retryPeriod
metrics-bind-address: metrics.port
metrics-secure: metrics.secure.enabled
metrics-cert-path: metrics.secure.certificateSecret
health-probe-bind-address: health.port
conversion-webhook-bind-address: apis.webhook.port
conversion-webhook-versions: apis.kubeflow.oldVersions
conversion-webhook-cert-path: apis.webhook.certificateSecret
conversion-webhook-secret: apis.webhook.certificateSecret
conversion-webhook-host: apis.webhook.certificateSecret
progress-bind-address: progress.port
progress-url: progress.enabled
progress-cert-path: progress.certificateSecret
log-format: logs.format
log-level: logs.level
log-ended-jobs: logs.endedJobs
{{- end -}}
