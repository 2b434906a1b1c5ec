{{/*
Reasons not to install. All of them need a cluster: `helm template` and `helm lint` see none.
*/}}

{{/* Fails while a Deployment that is not this release's runs TFJobs in a namespace that this release is to serve. */}}
{{- define "tf-operator.refuseOtherControllers" -}}
{{- range (lookup "apps/v1" "Deployment" "" "").items -}}
  {{- if eq (include "tf-operator.isRival" (list $ .)) "true" -}}
    {{- $hand := printf "kubectl --namespace %s scale deployment %s --replicas=0" .metadata.namespace .metadata.name -}}
    {{- printf "\n\nNot installed: the Deployment %s in namespace %s already runs TFJobs, and two controllers destroy each other's jobs.\nStop it first; running jobs go on, and this operator takes them over:\n\n    %s\n\nIf it does not run TFJobs, say so: --set conflictCheck=false\n" .metadata.name .metadata.namespace $hand | fail -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes the root context and a Deployment. */}}
{{- define "tf-operator.isRival" -}}
{{- $root := index . 0 -}}
{{- $other := index . 1 -}}
{{- $notes := $other.metadata.annotations | default dict -}}
{{- $isOurs := and (eq (get $notes "meta.helm.sh/release-name") $root.Release.Name) (eq (get $notes "meta.helm.sh/release-namespace") $root.Release.Namespace) -}}
{{- if and (not $isOurs) (ne (int $other.spec.replicas) 0) -}}
  {{- range $other.spec.template.spec.containers -}}
    {{- $words := concat (.command | default list) (.args | default list) -}}
    {{- $image := regexMatch "(^|/)(training-operator|tf-operator|tf_operator)([:@]|$)" .image -}}
    {{- $name := regexMatch "^(training-operator|tf-job-operator|tf-operator)$" $other.metadata.name -}}
    {{- if and (or $image $name) (include "tf-operator.runsTFJobs" $words) (include "tf-operator.servesSame" (list $root $words)) -}}
      {{- "true" -}}
      {{- break -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Kubeflow's operator runs all kinds, unless --enable-scheme says which. */}}
{{- define "tf-operator.runsTFJobs" -}}
{{- $line := join " " . | lower -}}
{{- if or (not (contains "enable-scheme" $line)) (regexMatch "enable-scheme[= ]tfjob" $line) -}}
yes
{{- end -}}
{{- end -}}

{{/* Without --namespace it serves all of them. */}}
{{- define "tf-operator.servesSame" -}}
{{- $served := (index . 0).Values.watch.namespaces -}}
{{- $theirs := list -}}
{{- range regexFindAll "--?namespace[= ][a-z0-9,-]+" (join " " (index . 1)) -1 -}}
  {{- $theirs = concat $theirs (regexReplaceAll "^--?namespace[= ]" . "" | splitList ",") -}}
{{- end -}}
{{- if or (not $served) (not $theirs) -}}
yes
{{- else -}}
  {{- range $theirs -}}{{- if has . $served -}}yes{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails when the CRD is there and not this release's, unless it is to be taken over. */}}
{{- define "tf-operator.refuseForeignDefinition" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "tfjobs.kubeflow.org" -}}
  {{- $notes := .metadata.annotations | default dict -}}
  {{- $release := get $notes "meta.helm.sh/release-name" -}}
  {{- $namespace := get $notes "meta.helm.sh/release-namespace" -}}
  {{- if not (and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace)) -}}
    {{- $owner := ternary (printf "the Helm release %s in namespace %s" $release $namespace) "somebody who did not use Helm" (ne $release "") -}}
    {{- /* Helm 4 applies on the server, where fields belong to whoever has written them. */ -}}
    {{- $flags := ternary "--take-ownership --force-conflicts" "--take-ownership" (semverCompare ">=4.0.0-0" $.Capabilities.HelmVersion.Version) -}}
    {{- printf "\n\nNot installed: the CRD tfjobs.kubeflow.org is there already and belongs to %s.\nTo have this release own and upgrade it (no TFJob is touched):\n\n    helm ... %s --set crds.takeOver=true\n\nTo leave it as it is: --set crds.enabled=false\n" $owner $flags | fail -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Values that are right one by one, and wrong together. */}}
{{- define "tf-operator.refuseContradictions" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicaCount) 1) -}}
{{- fail "replicaCount must be 1 when leaderElection.enabled is false: two operators would destroy each other's jobs" -}}
{{- end -}}
{{- if and .Values.strategy (not .Values.leaderElection.enabled) (ne (.Values.strategy).type "Recreate") -}}
{{- fail "strategy.type must be Recreate when leaderElection.enabled is false: during a rollout two operators would destroy each other's jobs" -}}
{{- end -}}
{{- $full := include "tf-operator.fullname" . -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $full) -}}
{{- fail (printf "a Service cannot be called %s: set fullnameOverride to a name of small letters, digits and -, the first a letter" $full) -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service) -}}
{{- fail "metrics.serviceMonitor needs metrics.service" -}}
{{- end -}}
{{- range $part := list "serviceMonitor" "podMonitor" "prometheusRule" "dashboards" -}}
{{- if and (get $.Values.metrics $part).enabled (not $.Values.metrics.enabled) -}}
{{- fail (printf "metrics.%s.enabled needs metrics.enabled" $part) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.podMonitor and metrics.serviceMonitor cannot both be enabled: everything would be counted twice, and the alert TFOperatorTwoLeaders would fire" -}}
{{- end -}}
{{- with .Values.metrics -}}
{{- if and .secure.enabled .podMonitor.enabled (not .secure.tokenSecret) -}}
{{- fail "metrics.podMonitor needs metrics.secure.tokenSecret when metrics.secure.enabled is true: a PodMonitor cannot use the token of Prometheus' own pod; a ServiceMonitor can" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.config.configmap .Values.config.inline -}}
{{- fail "config.configmap and config.inline are two places for one configuration: choose one" -}}
{{- end -}}
{{- if and .Values.apis.kubeflow.oldVersions .Values.watch.namespaces (not .Values.crds.enabled) (not .Values.apis.webhook.certificateSecret) -}}
{{- fail "apis.webhook.certificateSecret is needed with watch.namespaces and without crds.enabled: an operator for namespaces has no right on the CRD, so whoever installs the CRD writes its caBundle" -}}
{{- end -}}
{{- $ports := dict "health.port" .Values.health.port -}}
{{- if .Values.metrics.enabled -}}{{- $_ := set $ports "metrics.port" .Values.metrics.port -}}{{- end -}}
{{- if .Values.apis.kubeflow.oldVersions -}}{{- $_ := set $ports "apis.webhook.port" .Values.apis.webhook.port -}}{{- end -}}
{{- if .Values.progress.enabled -}}{{- $_ := set $ports "progress.port" .Values.progress.port -}}{{- end -}}
{{- $names := dict -}}
{{- range $name, $port := $ports -}}
{{- with get $names (toString (int $port)) -}}
{{- fail (printf "%s and %s must differ: both are %d" . $name (int $port)) -}}
{{- end -}}
{{- $_ := set $names (toString (int $port)) $name -}}
{{- end -}}
{{- with .Values.leaderElection -}}
{{- if .enabled -}}
{{- $lease := include "tf-operator.milliseconds" .leaseDuration | float64 -}}
{{- $deadline := include "tf-operator.milliseconds" .renewDeadline | float64 -}}
{{- $period := include "tf-operator.milliseconds" .retryPeriod | float64 -}}
{{- if ge $deadline $lease -}}
{{- fail (printf "leaderElection.renewDeadline (%s) must be shorter than leaderElection.leaseDuration (%s): otherwise a leader still works when another one takes over" .renewDeadline .leaseDuration) -}}
{{- end -}}
{{- if le $deadline (mulf 1.2 $period) -}}
{{- fail (printf "leaderElection.renewDeadline (%s) must be longer than 1.2 times leaderElection.retryPeriod (%s): otherwise the first renewal already comes too late" .renewDeadline .retryPeriod) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $test := .Values.test.namespace -}}
{{- if and $test .Values.watch.namespaces (not (has $test .Values.watch.namespaces)) -}}
{{- fail (printf "test.namespace %s is none of watch.namespaces" $test) -}}
{{- end -}}
{{- end -}}

{{/* Values for more of something, with one that the chart sets itself: which of the two holds would be chance. */}}
{{- define "tf-operator.refuseSetTwice" -}}
{{- $labels := include "tf-operator.labels" (dict "Values" (omit .Values "commonLabels") "Chart" .Chart "Release" .Release) | fromYaml | keys -}}
{{- range .Values.extraArgs -}}
{{- $flag := include "tf-operator.flag" . -}}
{{- with get (include "tf-operator.valuesOfFlags" $ | fromYaml) $flag -}}
{{- fail (printf "extraArgs: %s is set by the chart itself, with the rights that go with it: set %s" $flag .) -}}
{{- end -}}
{{- end -}}
{{- $named := dict
  "commonLabels" (list (keys .Values.commonLabels) $labels)
  "podLabels" (list (keys .Values.podLabels) $labels)
  "deploymentAnnotations" (list (keys .Values.deploymentAnnotations) (list "kube-score/ignore" "checkov.io/skip1"))
-}}
{{- $volumes := list "metrics-certificate" "webhook-certificate" "progress-certificate" -}}
{{- if include "tf-operator.config" . -}}{{- $volumes = append $volumes "config" -}}{{- end -}}
{{- $own := dict "extraEnv" (list "MY_POD_NAME" "MY_POD_NAMESPACE" "MY_POD_IP" "CUSTOM_CLUSTER_DOMAIN") "extraContainers" (list "operator") "extraInitContainers" (list "operator") "extraVolumes" $volumes -}}
{{- range $value, $taken := $own -}}
{{- $names := list -}}
{{- range get $.Values $value -}}{{- $names = append $names .name -}}{{- end -}}
{{- $_ := set $named $value (list $names $taken) -}}
{{- end -}}
{{- range $value, $lists := $named -}}
{{- range first $lists -}}
{{- if has . (last $lists) -}}
{{- fail (printf "%s: %s is set by the chart itself" $value .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How long a duration of Go lasts: 61500 for 1m1.5s. */}}
{{- define "tf-operator.milliseconds" -}}
{{- $units := dict "ns" 0.000001 "us" 0.001 "µs" 0.001 "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" . -1 -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9.]+" . | float64) (get $units (regexFind "[a-zµ]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* The name in an argument: log-level in --log-level=debug. */}}
{{- define "tf-operator.flag" -}}
{{- regexReplaceAll "^--?([^=]*).*$" . "${1}" -}}
{{- end -}}
