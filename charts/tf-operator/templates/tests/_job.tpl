{{/* The TFJob of `helm test`. Takes the root context, its name, its namespace, and the image of its workers. */}}
{{- define "tf-operator.testJob" -}}
{{- $root := index . 0 -}}
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: {{ index . 1 | quote }}
  namespace: {{ index . 2 | quote }}
spec:
  successPolicy: AllWorkers
  runPolicy:
    cleanPodPolicy: None
    backoffLimit: 0
    activeDeadlineSeconds: {{ $root.Values.test.timeoutSeconds }}
    # Whatever becomes of the test pod, the job does not stay.
    ttlSecondsAfterFinished: 600
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: Never
      template:
        metadata:
          annotations:
            # A sidecar would only be in the way.
            sidecar.istio.io/inject: "false"
        spec:
          automountServiceAccountToken: false
          enableServiceLinks: false
          {{- with $root.Values.imagePullSecrets }}
          imagePullSecrets:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $root.Values.nodeSelector }}
          nodeSelector:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $root.Values.tolerations }}
          tolerations:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- include "tf-operator.podSecurity" $root | nindent 12 }}
          containers:
            - name: tensorflow
              image: {{ index . 3 | quote }}
              imagePullPolicy: {{ $root.Values.image.pullPolicy }}
              command: [python3, -c]
              args:
                - |-
                  {{- $root.Files.Get "files/worker.py" | trim | nindent 18 }}
              resources:
                {{- include "tf-operator.testResources" $root | nindent 16 }}
              securityContext:
                {{- include "tf-operator.containerSecurity" $root | nindent 16 }}
{{- end -}}

{{/* Small, and given all the same: a namespace with a quota admits nothing without. */}}
{{- define "tf-operator.testResources" -}}
requests:
  cpu: 50m
  memory: 64Mi
  ephemeral-storage: 8Mi
limits:
  cpu: 500m
  memory: 128Mi
  ephemeral-storage: 16Mi
{{- end -}}
